//! Every way in which a call through the SDK can fail, mapped once to a kind of [`StoreError`]: the same for all services.
//!
//! Where it is not certain that a request changed nothing, the kind is one that says so
//! ([`FailureKind::certainly_not_applied`]): a reply that cannot be read, a connection that broke, and every code that
//! nobody knows from a server that failed.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use fencepost_protocol::failure::FailureKind;

use crate::StoreError;

/// Words of a service that go into an error, at most. A service's message may quote the request.
const DETAIL_CHARS_MAX: usize = 300;

/// Maps the failure of `operation`.
pub(crate) fn store_error<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> StoreError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let (kind, detail) = match error {
        SdkError::TimeoutError(_) => (FailureKind::TimedOut, "no answer in time".to_owned()),
        SdkError::ConstructionFailure(_) => match credentials_failure(error) {
            Some(failure) => failure,
            None => (FailureKind::Invalid, chain(error)),
        },
        SdkError::DispatchFailure(failure) => match credentials_failure(error) {
            Some(failure) => failure,
            None if failure.is_timeout() => (FailureKind::TimedOut, chain(error)),
            None if failure.is_user() => (FailureKind::Invalid, chain(error)),
            None => (FailureKind::Unavailable, chain(error)),
        },
        SdkError::ServiceError(service) => {
            let code = service.err().code().unwrap_or("no code");
            let status = service.raw().status().as_u16();
            let message = service.err().message().unwrap_or("no message");
            (kind_of_code(code, status), format!("{code} (HTTP {status}): {}", without_echo(message)))
        }
        SdkError::ResponseError(_) => (FailureKind::Unavailable, format!("the reply cannot be read: {}", chain(error))),
        _ => (FailureKind::Unavailable, chain(error)),
    };
    StoreError::new(kind, operation, shortened(detail))
}

/// The kind of a service's error code, whichever service it is. Codes may bear a namespace (`AWS.SimpleQueueService.…`).
pub(crate) fn kind_of_code(code: &str, status: u16) -> FailureKind {
    let name = code.rsplit(['.', '#']).next().unwrap_or(code);
    match name {
        "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "ThrottlingError"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "TooManyRequestsException"
        | "ProvisionedThroughputExceededException"
        | "ProvisionedThroughputExceeded"
        | "RequestLimitExceeded"
        | "LimitExceededException"
        | "BandwidthLimitExceeded"
        | "SlowDown"
        | "OverLimit"
        | "KmsThrottled"
        // Another writer holds the item for a moment: turned away before anything was written.
        | "TransactionConflict"
        | "TransactionConflictException"
        | "TransactionInProgressException"
        | "ConflictingResourceUpdateException" => FailureKind::Throttled,
        "ReplicatedWriteConflictException"
        | "ReplicatedWriteConflict"
        | "InternalServerError"
        | "InternalFailure"
        | "InternalFailureException"
        | "InternalException"
        | "ServiceUnavailable"
        | "ServiceUnavailableException"
        | "ResourceInUseException" => FailureKind::Unavailable,
        "RequestTimeout" | "RequestTimeoutException" => FailureKind::TimedOut,
        "AccessDenied"
        | "AccessDeniedException"
        | "UnauthorizedException"
        | "UnrecognizedClientException"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidSignatureException"
        | "InvalidSignature"
        | "SignatureDoesNotMatch"
        | "IncompleteSignature"
        | "IncompleteSignatureException"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "InvalidClientTokenId"
        | "InvalidAccessKeyId"
        | "NotAuthorized"
        | "AuthFailure"
        | "InvalidSecurity"
        | "OptInRequired"
        // The queue's key: only its owner can help.
        | "KmsAccessDenied"
        | "KmsDisabled"
        | "KmsInvalidState"
        | "KmsInvalidKeyUsage"
        | "KmsNotFound"
        | "KmsOptInRequired" => FailureKind::Denied,
        _ => match status {
            429 => FailureKind::Throttled,
            408 => FailureKind::TimedOut,
            401 | 403 => FailureKind::Denied,
            400..=499 => FailureKind::Invalid,
            _ => FailureKind::Unavailable,
        },
    }
}

/// A failure to get credentials, in words. Waiting for them in vain is a time-out, everything else a denial.
fn credentials_failure(error: &(dyn Error + 'static)) -> Option<(FailureKind, String)> {
    let found = causes(error).find_map(|cause| cause.downcast_ref::<CredentialsError>())?;
    let kind = match found {
        CredentialsError::ProviderTimedOut(_) => FailureKind::TimedOut,
        _ => FailureKind::Denied,
    };
    Some((kind, format!("no usable AWS credentials: {}", chain(found))))
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// An error and its causes, outermost first.
fn chain(error: &(dyn Error + 'static)) -> String {
    let words: Vec<String> = causes(error).map(ToString::to_string).collect();
    words.join(": ")
}

/// A validation message without the value that it quotes: that may be a part of a payload.
pub(crate) fn without_echo(message: &str) -> String {
    const BEFORE: &str = "Value '";
    const AFTER: &str = "' at '";
    match (message.find(BEFORE), message.rfind(AFTER)) {
        (Some(start), Some(end)) if start + BEFORE.len() <= end => {
            format!("{}…{}", &message[..start + BEFORE.len()], &message[end..])
        }
        _ => message.to_owned(),
    }
}

fn shortened(detail: String) -> String {
    match detail.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &detail[..end]),
        None => detail,
    }
}
