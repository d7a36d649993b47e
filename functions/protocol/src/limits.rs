//! Every limit that is not ours to choose, in one place, with its source, and the relations between them checked by the
//! compiler. Limits that a user chooses are in [`crate::timing`] and in the settings.

/// DynamoDB: an item, names and values together, in bytes (service quotas, "Item size").
pub const ITEM_BYTES_MAX: usize = 400 * 1024;
/// DynamoDB: bytes that one write unit pays for, rounded up for each item.
pub const WRITE_UNIT_BYTES: usize = 1024;
/// DynamoDB: statements in one `BatchExecuteStatement` request.
pub const BATCH_STATEMENTS_MAX: usize = 25;
/// DynamoDB: keys in one `BatchGetItem` request.
pub const BATCH_GET_KEYS_MAX: usize = 100;
/// DynamoDB: bytes that one `Query` page reads before it stops.
pub const QUERY_PAGE_BYTES_MAX: usize = 1024 * 1024;
/// SQS: entries in one batch request.
pub const QUEUE_BATCH_ENTRIES_MAX: usize = 10;
/// SQS: bytes of one message and of one batch request, bodies and attributes together (1 MiB since August 2025).
pub const QUEUE_REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// SQS: message attributes of one message.
pub const QUEUE_ATTRIBUTES_MAX: usize = 10;
/// SQS: characters of a `MessageGroupId` and of a `MessageDeduplicationId`.
pub const QUEUE_ID_CHARS_MAX: usize = 128;
/// AWS IoT Core: bytes of a published payload.
pub const IOT_PAYLOAD_BYTES_MAX: usize = 128 * 1024;
/// AWS IoT Core: bytes of a topic name, UTF-8 encoded (reserved basic ingest prefix not counted).
pub const IOT_TOPIC_BYTES_MAX: usize = 256;
/// AWS IoT Core: bytes of a client id, UTF-8 encoded.
pub const IOT_CLIENT_ID_BYTES_MAX: usize = 128;
/// AWS Lambda: bytes of an asynchronous invocation's event (1 MB since October 2025; the older value is the safe one).
pub const LAMBDA_ASYNC_EVENT_BYTES_MAX: usize = 256 * 1024;

/// Our own: the largest fencing token that is ever issued. JSON numbers and JSONata carry it exactly (2^53 − 1 and one to
/// spare); at one token a second it lasts 285 million years, so a larger one in a row is damage, not age.
pub const FENCING_TOKEN_MAX: u64 = 9_007_199_254_740_990;
/// Our own: shards of one lease group (four digits in the key).
pub const SHARDS_MAX: u16 = 9_999;
/// Our own: bytes that the attributes of an outstanding row may add to its payload, topic and client id.
pub const ROW_OVERHEAD_BYTES_MAX: usize = 300;
/// Our own: settled claims that one drain call takes.
pub const SETTLED_IDS_MAX: usize = 100;
/// Our own: characters of a message id, so that it fits an SQS attribute, a key and a log line.
pub const MESSAGE_ID_CHARS_MAX: usize = 100;
/// Our own: bytes of a last error kept in a row.
pub const LAST_ERROR_BYTES_MAX: usize = 120;

const _: () = assert!(
    IOT_PAYLOAD_BYTES_MAX + IOT_TOPIC_BYTES_MAX + IOT_CLIENT_ID_BYTES_MAX + ROW_OVERHEAD_BYTES_MAX < ITEM_BYTES_MAX,
    "the largest message that IoT Core accepts must fit one row"
);
const _: () = assert!(
    IOT_PAYLOAD_BYTES_MAX.div_ceil(3) * 4 + 1024 < LAMBDA_ASYNC_EVENT_BYTES_MAX,
    "the largest message must fit one asynchronous event, base64 encoded"
);
const _: () = assert!(
    IOT_PAYLOAD_BYTES_MAX.div_ceil(3) * 4 * 2 < QUEUE_REQUEST_BYTES_MAX,
    "the largest message must fit the queue in every body format, with room for an envelope"
);
const _: () = assert!(MESSAGE_ID_CHARS_MAX <= QUEUE_ID_CHARS_MAX, "a message id is a deduplication id");
const _: () = assert!(FENCING_TOKEN_MAX < (1 << 53), "a token must survive JSON");
