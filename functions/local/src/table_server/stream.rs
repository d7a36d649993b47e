//! Reading a table's stream in process, without an SDK client for DynamoDB Streams.
//!
//! A record is the JSON that Lambda's event carries in `Records` (`eventName`, `dynamodb.Keys`, …), so it can be handed
//! to the real handler as it is. Order is the order of the writes; nothing is skipped while the reader lives. Filtering
//! and batching belong to whoever plays the event source mapping.

use dynoxide::Database;
use dynoxide::actions::describe_stream::DescribeStreamRequest;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use dynoxide::actions::list_streams::ListStreamsRequest;
use serde_json::Value;

/// A table's stream could not be read, or a table could not be swept.
#[derive(Debug, thiserror::Error)]
#[error("stream of {table}: {problem}")]
pub struct StreamError {
    /// The table.
    pub table: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// A position in one table's stream.
pub struct StreamReader {
    database: Database,
    table: String,
    iterator: String,
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StreamReader").field("table", &self.table).finish_non_exhaustive()
    }
}

impl StreamReader {
    /// A reader of every change after this call.
    pub(super) fn from_now(database: Database, table: &str) -> Result<StreamReader, StreamError> {
        let failed = |problem: String| StreamError { table: table.to_owned(), problem };
        let listed = database
            .list_streams(ListStreamsRequest { table_name: Some(table.to_owned()), ..Default::default() })
            .map_err(|error| failed(error.to_string()))?;
        let stream_arn = listed
            .streams
            .into_iter()
            .next()
            .map(|stream| stream.stream_arn)
            .ok_or_else(|| failed("no stream; create the table with a StreamSpecification".to_owned()))?;
        let described = database
            .describe_stream(DescribeStreamRequest { stream_arn: stream_arn.clone(), ..Default::default() })
            .map_err(|error| failed(error.to_string()))?;
        let shard_id = described
            .stream_description
            .shards
            .into_iter()
            .next()
            .map(|shard| shard.shard_id)
            .ok_or_else(|| failed("the stream has no shard".to_owned()))?;
        let iterator = database
            .get_shard_iterator(GetShardIteratorRequest {
                stream_arn,
                shard_id,
                shard_iterator_type: "LATEST".to_owned(),
                sequence_number: None,
            })
            .map_err(|error| failed(error.to_string()))?
            .shard_iterator
            .ok_or_else(|| failed("the stream gave no iterator".to_owned()))?;
        Ok(StreamReader { database, table: table.to_owned(), iterator })
    }

    /// The next changes, oldest first, at most `records_max` (1 to 1000); empty when there are none yet. Does not wait.
    ///
    /// # Errors
    /// The table is gone, or the database failed; the position is unchanged.
    pub fn poll(&mut self, records_max: usize) -> Result<Vec<Value>, StreamError> {
        let failed = |table: &str, problem: String| StreamError { table: table.to_owned(), problem };
        let read = self
            .database
            .get_records(GetRecordsRequest { shard_iterator: self.iterator.clone(), limit: Some(records_max) })
            .map_err(|error| failed(&self.table, error.to_string()))?;
        let records = read
            .records
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failed(&self.table, error.to_string()))?;
        if let Some(next) = read.next_shard_iterator {
            self.iterator = next;
        }
        Ok(records)
    }
}
