//! placeholder: written by its owner

/// One message as the queue gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// Its id inside the request: at most 80 letters, digits, '-' and '_'.
    pub entry_id: String,
    /// The body: 1 character at least, only characters that SQS allows.
    pub body: String,
    /// String attributes, name and value, at most ten.
    pub attributes: Vec<(String, String)>,
    /// `MessageGroupId`.
    pub group_id: Option<String>,
    /// `MessageDeduplicationId` (FIFO only).
    pub deduplication_id: Option<String>,
}

impl QueueEntry {
    /// What it counts against the request's limit: body, attribute names, types and values, in bytes.
    pub fn size_bytes(&self) -> usize {
        const STRING_TYPE_BYTES: usize = "String".len();
        let attributes: usize =
            self.attributes.iter().map(|(name, value)| name.len() + STRING_TYPE_BYTES + value.len()).sum();
        self.body.len() + attributes
    }
}
