//! An answer to somebody who gave an address for it: one HTTP PUT to a URL that is signed beforehand, as CloudFormation hands
//! it to a custom resource.
//!
//! It goes through the HTTP client that the SDK brings anyway, with its TLS and its roots. One call is one try; how often
//! to try is the caller's.
//!
//! What must stay out: what is answered. The address must not get out: it holds a signature.

use std::time::Duration;

use aws_smithy_http_client::default_connector;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use fencepost_protocol::failure::FailureKind;

use crate::StoreError;

#[cfg(test)]
mod tests;

/// What this call is named in an error.
const OPERATION: &str = "answer to CloudFormation";
/// A connection that is not made within this time is not made at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The wait for the reply, once there is a connection.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// Puts an answer to an address.
#[derive(Debug, Clone)]
pub struct Callback {
    connector: SharedHttpConnector,
}

impl Callback {
    /// How long one [`Callback::put`] takes at most.
    pub const PUT_TIMEOUT: Duration = CONNECT_TIMEOUT.saturating_add(READ_TIMEOUT);

    /// A callback with its own connections. Opens none yet.
    ///
    /// # Errors
    /// [`FailureKind::Invalid`] where the program was built without a TLS stack.
    pub fn new() -> Result<Self, StoreError> {
        let settings =
            HttpConnectorSettings::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT).build();
        let connector = default_connector(&settings, None)
            .ok_or_else(|| StoreError::new(FailureKind::Invalid, OPERATION, "the program has no TLS stack"))?;
        Ok(Self { connector })
    }

    /// Puts `body` to `url` once.
    ///
    /// # Errors
    /// [`FailureKind::Invalid`] for an address that is none; [`FailureKind::Denied`] for one whose signature is refused, or
    /// has expired; otherwise how the call failed. None of them quotes the address.
    pub async fn put(&self, url: &str, body: Vec<u8>) -> Result<(), StoreError> {
        let mut request = HttpRequest::new(SdkBody::from(body));
        let invalid = |detail: &str| StoreError::new(FailureKind::Invalid, OPERATION, detail);
        request.set_method("PUT").map_err(|_| invalid("the method is refused"))?;
        request.set_uri(url).map_err(|_| invalid("ResponseURL is no URL"))?;
        // The signature covers an empty content type: any other is refused.
        request.headers_mut().insert("content-type", "");
        let response = self.connector.call(request).await.map_err(|error| unreached(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let kind = match status.as_u16() {
            401 | 403 => FailureKind::Denied,
            408 | 429 => FailureKind::Throttled,
            400..=499 => FailureKind::Invalid,
            _ => FailureKind::Unavailable,
        };
        Err(StoreError::new(kind, OPERATION, format!("HTTP {}", status.as_u16())))
    }
}

/// A connector's own words may quote the address, so only their kind is told.
fn unreached(error: &ConnectorError) -> StoreError {
    if error.is_timeout() {
        return StoreError::new(FailureKind::TimedOut, OPERATION, "no answer in time");
    }
    if error.is_user() {
        return StoreError::new(FailureKind::Invalid, OPERATION, "ResponseURL cannot be asked");
    }
    StoreError::new(FailureKind::Unavailable, OPERATION, "no connection, or it broke")
}
