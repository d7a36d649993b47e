//! Many conditional writes at once, each answered for itself, in the order in which they came.
//!
//! They travel as PartiQL statements, up to 25 in a `BatchExecuteStatement` request and a few requests at a time; or, with
//! batching off, as calls of their own. A batch is no transaction: each statement has its own condition and outcome.
//!
//! A statement that was throttled or failed inside the service is tried again, without its neighbours that were answered,
//! until the policy's tries or its time are used up; never where the caller forbids it. It fails as its least certain try
//! did. A reply with fewer outcomes than statements leaves the missing ones unknown.

use std::collections::HashSet;
use std::time::Duration;

use aws_sdk_dynamodb::operation::batch_execute_statement::BatchExecuteStatementError;
use aws_sdk_dynamodb::types::{BatchStatementErrorCodeEnum as Code, BatchStatementRequest, BatchStatementResponse};
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::limits::BATCH_STATEMENTS_MAX;
use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::{BoxFuture, Shared};
use futures::stream;

use super::convert::from_attributes;
use super::error::statement_error;
use super::statement;
use super::table::{Retry, TableClient};
use super::tries::{Tries, doubt, least_certain};
use super::write::{Outcome, Write};
use crate::StoreError;
use crate::item::{Key, size_bytes};

/// Batch requests of one call that are under way at once.
const REQUESTS_AT_ONCE: usize = 4;
/// Single-item calls that are under way at once, with batching off.
const SINGLE_CALLS_AT_ONCE: usize = 16;
/// Bytes of items that one request carries at most, so that a request of large payloads still fits one try's time-out.
const REQUEST_ITEM_BYTES_MAX: usize = 1024 * 1024;
/// The pause before the second try of a statement; doubled before each further one.
const STATEMENT_BACKOFF: Duration = Duration::from_millis(50);

/// The time that a whole call has; every part of it waits for the same end.
type Budget = Shared<BoxFuture<'static, ()>>;

type WriteResult = Result<Outcome, StoreError>;

/// A write, its place in the caller's list and its statement.
struct Numbered {
    index: usize,
    request: BatchStatementRequest,
    /// How an earlier try failed that may have been applied.
    doubt: Option<FailureKind>,
}

impl Numbered {
    /// The answer where `last` is how the last try ended.
    fn answer(&self, last: WriteResult) -> (usize, WriteResult) {
        (self.index, last.map_err(|error| least_certain(error, self.doubt)))
    }
}

impl TableClient {
    /// Carries out `writes`, by batches or singly. Of two writes to one key, the later follows the earlier.
    pub(super) async fn write_all(
        &self,
        operation: &'static str,
        writes: Vec<Write>,
        retry: Retry,
        batching: bool,
    ) -> Vec<WriteResult> {
        let budget: Budget = tokio::time::sleep(self.policy.call_timeout).boxed().shared();
        let mut results: Vec<Option<WriteResult>> = writes.iter().map(|_| None).collect();
        for round in rounds(&self.keys(&writes)) {
            let part: Vec<(usize, Write)> = round.into_iter().map(|index| (index, writes[index].clone())).collect();
            let done = if batching {
                self.write_batched(operation, part, retry, &budget).await
            } else {
                self.write_singly(operation, part, retry, &budget).await
            };
            for (index, result) in done {
                results[index] = Some(result);
            }
        }
        results.into_iter().map(|result| result.unwrap_or_else(|| Err(unanswered(operation)))).collect()
    }

    fn keys(&self, writes: &[Write]) -> Vec<Option<Key>> {
        let key_of = |write: &Write| match write {
            Write::Put { item, .. } => self.table.key_of(item),
            Write::Update { key, .. } | Write::Delete { key, .. } => Some(key.clone()),
        };
        writes.iter().map(key_of).collect()
    }

    async fn write_singly(
        &self,
        operation: &'static str,
        writes: Vec<(usize, Write)>,
        retry: Retry,
        budget: &Budget,
    ) -> Vec<(usize, WriteResult)> {
        let calls = writes.into_iter().map(|(index, write)| async move {
            let result = tokio::select! {
                result = self.write_one(operation, write, retry) => result,
                () = budget.clone() => Err(out_of_time(operation)),
            };
            (index, result)
        });
        stream::iter(calls).buffer_unordered(SINGLE_CALLS_AT_ONCE).collect().await
    }

    async fn write_batched(
        &self,
        operation: &'static str,
        writes: Vec<(usize, Write)>,
        retry: Retry,
        budget: &Budget,
    ) -> Vec<(usize, WriteResult)> {
        let mut unsayable = Vec::new();
        let mut chunks: Vec<Vec<Numbered>> = Vec::new();
        let mut chunk_bytes = 0;
        for (index, write) in writes {
            let bytes = if let Write::Put { item, .. } = &write { size_bytes(item) } else { 0 };
            let Some(request) = statement::request(&self.name, self.table, write.clone()) else {
                unsayable.push((index, write));
                continue;
            };
            let numbered = Numbered { index, request, doubt: None };
            match chunks.last_mut() {
                Some(chunk) if chunk.len() < BATCH_STATEMENTS_MAX && chunk_bytes + bytes <= REQUEST_ITEM_BYTES_MAX => {
                    chunk_bytes += bytes;
                    chunk.push(numbered);
                }
                _ => {
                    chunk_bytes = bytes;
                    chunks.push(vec![numbered]);
                }
            }
        }
        let sent = chunks.into_iter().map(|chunk| self.write_chunk(operation, chunk, retry, budget));
        let mut results: Vec<(usize, WriteResult)> =
            stream::iter(sent).buffer_unordered(REQUESTS_AT_ONCE).concat().await;
        if !unsayable.is_empty() {
            results.extend(self.write_singly(operation, unsayable, retry, budget).await);
        }
        results
    }

    /// One request's statements, tried until each is answered, or the tries or the time are used up.
    async fn write_chunk(
        &self,
        operation: &'static str,
        mut open: Vec<Numbered>,
        retry: Retry,
        budget: &Budget,
    ) -> Vec<(usize, WriteResult)> {
        let tries = if retry == Retry::Never { 1 } else { self.policy.max_attempts.max(1) };
        let mut results = Vec::with_capacity(open.len());
        let mut pause = STATEMENT_BACKOFF;
        for attempt in 1..=tries {
            let requests = open.iter().map(|numbered| numbered.request.clone()).collect();
            let reply = tokio::select! {
                reply = self.batch_request(operation, requests, retry) => reply,
                () = budget.clone() => Err(out_of_time(operation)),
            };
            let (responses, earlier_doubt) = match reply {
                Ok(answered) => answered,
                Err(error) => {
                    results.extend(open.iter().map(|numbered| numbered.answer(Err(error.clone()))));
                    return results;
                }
            };
            let mut outcomes = responses.into_iter();
            let mut again = Vec::new();
            for mut numbered in open {
                numbered.doubt = numbered.doubt.or(earlier_doubt);
                let result = match outcomes.next() {
                    Some(response) => self.outcome(operation, &numbered.request, response),
                    None => Err(unanswered(operation)),
                };
                match result {
                    Err(error) if worth_retrying(&error) && attempt < tries => again.push((numbered, error)),
                    result => results.push(numbered.answer(result)),
                }
            }
            if again.is_empty() {
                return results;
            }
            let in_time = tokio::select! {
                () = tokio::time::sleep(pause) => true,
                () = budget.clone() => false,
            };
            if !in_time {
                results.extend(again.into_iter().map(|(numbered, error)| numbered.answer(Err(error))));
                return results;
            }
            pause *= 2;
            let doubting = |(numbered, error): (Numbered, StoreError)| Numbered {
                doubt: numbered.doubt.or(doubt(error.kind)),
                ..numbered
            };
            open = again.into_iter().map(doubting).collect();
        }
        results
    }

    /// The outcomes of one request, and the doubt that holds for all of them: how an earlier try of the request inside the
    /// SDK failed that may have been applied.
    async fn batch_request(
        &self,
        operation: &'static str,
        statements: Vec<BatchStatementRequest>,
        retry: Retry,
    ) -> Result<(Vec<BatchStatementResponse>, Option<FailureKind>), StoreError> {
        let tries = Tries::default();
        self.observed(operation, async {
            let output = self
                .client
                .batch_execute_statement()
                .set_statements(Some(statements))
                .set_return_consumed_capacity(self.capacity())
                .customize()
                .config_override(self.bounds(retry).interceptor(tries.watch::<BatchExecuteStatementError>()))
                .send()
                .await
                .map_err(|error| least_certain(self.failed(operation, &error), tries.earlier_doubt()))?;
            let units = output.consumed_capacity().iter().filter_map(|capacity| capacity.capacity_units()).sum();
            Ok(((output.responses.unwrap_or_default(), tries.earlier_doubt()), units))
        })
        .await
    }

    fn outcome(
        &self,
        operation: &'static str,
        request: &BatchStatementRequest,
        response: BatchStatementResponse,
    ) -> WriteResult {
        let Some(error) = response.error else {
            // A DELETE of an absent item succeeds and returns no old item.
            let deleted_nothing = request.statement().starts_with("DELETE") && response.item.is_none();
            return Ok(if deleted_nothing { Outcome::Refused(None) } else { Outcome::Done });
        };
        match error.code() {
            Some(Code::ConditionalCheckFailed) => Ok(Outcome::Refused(error.item.map(from_attributes))),
            Some(Code::DuplicateItem) => Ok(Outcome::Taken),
            _ => Err(statement_error(operation, self.table, &self.name, &error)),
        }
    }
}

/// A statement that failed for a reason that passes. A time-out is not among them: its time is used up.
fn worth_retrying(error: &StoreError) -> bool {
    matches!(error.kind, FailureKind::Throttled | FailureKind::Unavailable)
}

/// The indices of `keys` in rounds, so that no key comes twice in one round and its repeats follow in later ones. The service
/// refuses a whole batch that names a key twice.
fn rounds(keys: &[Option<Key>]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<(HashSet<&Key>, Vec<usize>)> = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let free = rounds.iter().position(|(seen, _)| key.as_ref().is_none_or(|key| !seen.contains(key)));
        let place = free.unwrap_or_else(|| {
            rounds.push((HashSet::new(), Vec::new()));
            rounds.len() - 1
        });
        if let Some((seen, indices)) = rounds.get_mut(place) {
            seen.extend(key);
            indices.push(index);
        }
    }
    rounds.into_iter().map(|(_, indices)| indices).collect()
}

fn out_of_time(operation: &'static str) -> StoreError {
    StoreError::new(FailureKind::TimedOut, operation, "the call's time was used up; it may have been applied")
}

fn unanswered(operation: &'static str) -> StoreError {
    StoreError::new(
        FailureKind::Unavailable,
        operation,
        "the reply has no outcome for this write; it may have been applied",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sort: &str) -> Option<Key> {
        Some(Key { partition: "p".to_owned(), sort: sort.to_owned() })
    }

    #[test]
    fn repeats_of_a_key_wait_for_the_next_round() {
        let keys = [key("a"), key("b"), key("a"), None, key("a")];
        assert_eq!(rounds(&keys), vec![vec![0, 1, 3], vec![2], vec![4]]);
    }
}
