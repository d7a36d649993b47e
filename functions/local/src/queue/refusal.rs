//! The errors SQS answers with: their shape names for new clients, their codes for old ones, and their HTTP status.

/// What kind of error it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The action is unknown, or this queue does not offer it.
    InvalidAction,
    /// The request's JSON does not fit the action.
    Serialization,
    /// A parameter that must be there is not.
    MissingParameter,
    /// A parameter has a value that is not allowed.
    InvalidParameterValue,
    /// There is no queue attribute of this name, or it is not offered here.
    InvalidAttributeName,
    /// A queue attribute has a value that is not allowed.
    InvalidAttributeValue,
    /// A body or an attribute has characters that SQS refuses.
    InvalidMessageContents,
    /// There is no such queue.
    QueueDoesNotExist,
    /// The queue exists with other attributes.
    QueueNameExists,
    /// A batch without entries.
    EmptyBatchRequest,
    /// A batch of more than ten entries.
    TooManyEntries,
    /// Two entries of a batch have one id.
    EntryIdsNotDistinct,
    /// An entry's id has characters or a length that is not allowed.
    InvalidEntryId,
    /// The entries of a batch are together larger than 1 MiB.
    BatchTooLong,
    /// The receipt handle is not one of ours.
    ReceiptHandleInvalid,
    /// The message is not in flight.
    NotInFlight,
    /// The queue was purged less than 60 seconds ago.
    PurgeInProgress,
    /// The client shall slow down.
    Throttled,
    /// The queue failed.
    Internal,
}

/// A request, or one entry of a batch, that was refused. Nothing of it was applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of error it is.
    pub kind: RefusalKind,
    /// What is wrong, in words.
    pub message: String,
}

impl Refusal {
    /// A refusal of this kind.
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into() }
    }

    /// A parameter's value that is not allowed, in SQS's own words.
    pub(crate) fn value(parameter: &str, value: impl std::fmt::Display, reason: &str) -> Refusal {
        let message = format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}");
        Refusal::new(RefusalKind::InvalidParameterValue, message)
    }

    /// A parameter that must be there.
    pub(crate) fn missing(parameter: &str) -> Refusal {
        Refusal::new(RefusalKind::MissingParameter, format!("The request must contain the parameter {parameter}."))
    }
}

impl RefusalKind {
    /// The name that the JSON body carries in `__type`.
    pub(crate) fn shape(self) -> &'static str {
        match self {
            RefusalKind::InvalidAction => "com.amazon.coral.service#UnknownOperationException",
            RefusalKind::Serialization => "com.amazon.coral.service#SerializationException",
            RefusalKind::MissingParameter => "com.amazonaws.sqs#MissingParameter",
            RefusalKind::InvalidParameterValue => "com.amazonaws.sqs#InvalidParameterValue",
            RefusalKind::InvalidAttributeName => "com.amazonaws.sqs#InvalidAttributeName",
            RefusalKind::InvalidAttributeValue => "com.amazonaws.sqs#InvalidAttributeValue",
            RefusalKind::InvalidMessageContents => "com.amazonaws.sqs#InvalidMessageContents",
            RefusalKind::QueueDoesNotExist => "com.amazonaws.sqs#QueueDoesNotExist",
            RefusalKind::QueueNameExists => "com.amazonaws.sqs#QueueNameExists",
            RefusalKind::EmptyBatchRequest => "com.amazonaws.sqs#EmptyBatchRequest",
            RefusalKind::TooManyEntries => "com.amazonaws.sqs#TooManyEntriesInBatchRequest",
            RefusalKind::EntryIdsNotDistinct => "com.amazonaws.sqs#BatchEntryIdsNotDistinct",
            RefusalKind::InvalidEntryId => "com.amazonaws.sqs#InvalidBatchEntryId",
            RefusalKind::BatchTooLong => "com.amazonaws.sqs#BatchRequestTooLong",
            RefusalKind::ReceiptHandleInvalid => "com.amazonaws.sqs#ReceiptHandleIsInvalid",
            RefusalKind::NotInFlight => "com.amazonaws.sqs#MessageNotInflight",
            RefusalKind::PurgeInProgress => "com.amazonaws.sqs#PurgeQueueInProgress",
            RefusalKind::Throttled => "com.amazonaws.sqs#RequestThrottled",
            RefusalKind::Internal => "com.amazonaws.sqs#InternalFailure",
        }
    }

    /// The code of the older query protocol, which clients read from the `x-amzn-query-error` header and which failed
    /// entries of a batch carry.
    pub(crate) fn code(self) -> &'static str {
        match self {
            RefusalKind::InvalidAction => "InvalidAction",
            RefusalKind::Serialization => "MalformedInput",
            RefusalKind::MissingParameter => "MissingParameter",
            RefusalKind::InvalidParameterValue => "InvalidParameterValue",
            RefusalKind::InvalidAttributeName => "InvalidAttributeName",
            RefusalKind::InvalidAttributeValue => "InvalidAttributeValue",
            RefusalKind::InvalidMessageContents => "InvalidMessageContents",
            RefusalKind::QueueDoesNotExist => "AWS.SimpleQueueService.NonExistentQueue",
            RefusalKind::QueueNameExists => "QueueAlreadyExists",
            RefusalKind::EmptyBatchRequest => "AWS.SimpleQueueService.EmptyBatchRequest",
            RefusalKind::TooManyEntries => "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            RefusalKind::EntryIdsNotDistinct => "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            RefusalKind::InvalidEntryId => "AWS.SimpleQueueService.InvalidBatchEntryId",
            RefusalKind::BatchTooLong => "AWS.SimpleQueueService.BatchRequestTooLong",
            RefusalKind::ReceiptHandleInvalid => "ReceiptHandleIsInvalid",
            RefusalKind::NotInFlight => "AWS.SimpleQueueService.MessageNotInflight",
            RefusalKind::PurgeInProgress => "AWS.SimpleQueueService.PurgeQueueInProgress",
            RefusalKind::Throttled => "RequestThrottled",
            RefusalKind::Internal => "InternalFailure",
        }
    }

    /// Whether the queue is to blame (HTTP 500) and not the request (HTTP 400).
    pub(crate) fn is_our_fault(self) -> bool {
        self == RefusalKind::Internal
    }
}
