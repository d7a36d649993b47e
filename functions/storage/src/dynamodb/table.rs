//! One table as the adapters use it: calls on single items and reads, each bounded by the store's [`CallPolicy`], each told
//! to the observer, each failure mapped.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use aws_sdk_dynamodb::types::{
    ConsumedCapacity, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure as OldItem,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;

use super::convert::{Attributes, from_attributes, to_attribute, to_attributes};
use super::error::ServiceFailure;
use super::expression::Expressions;
use super::tries::{Tries, least_certain};
use super::write::{Condition, Outcome, Write};
use crate::StoreError;
use crate::call::{CallObserver, CallPolicy, CallReport};
use crate::item::{Item, Key, Value};
use crate::records::Table;

/// The first pause of the SDK between two tries, doubled each time and randomised: these calls take milliseconds.
const RETRY_BACKOFF_INITIAL: Duration = Duration::from_millis(50);
/// The longest.
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(1);

/// May a call be tried again inside?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// As often as the policy says.
    ByPolicy,
    /// Never: the caller must know which try it was.
    Never,
}

/// A table and how to call it. Cheap to clone.
#[derive(Clone)]
pub(super) struct TableClient {
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) table: Table,
    pub(super) policy: CallPolicy,
    by_policy: Builder,
    once: Builder,
    observer: Option<Arc<dyn CallObserver>>,
}

impl TableClient {
    pub(super) fn new(
        client: Client,
        name: String,
        table: Table,
        policy: CallPolicy,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Self {
        let bounds = |attempts: u32, attempt_timeout: Duration| {
            let timeouts = TimeoutConfig::builder()
                .operation_timeout(policy.call_timeout)
                .operation_attempt_timeout(attempt_timeout);
            let retries = RetryConfig::standard()
                .with_max_attempts(attempts.max(1))
                .with_initial_backoff(RETRY_BACKOFF_INITIAL)
                .with_max_backoff(RETRY_BACKOFF_MAX);
            Builder::new().timeout_config(timeouts.build()).retry_config(retries)
        };
        let by_policy = bounds(policy.max_attempts, policy.attempt_timeout);
        let once = bounds(1, policy.call_timeout);
        Self { client, name, table, policy, by_policy, once, observer }
    }

    /// The SDK's bounds for one call.
    pub(super) fn bounds(&self, retry: Retry) -> Builder {
        match retry {
            Retry::ByPolicy => self.by_policy.clone(),
            Retry::Never => self.once.clone(),
        }
    }

    /// Capacity is asked for only where somebody listens.
    pub(super) fn capacity(&self) -> Option<ReturnConsumedCapacity> {
        self.observer.as_ref().map(|_| ReturnConsumedCapacity::Total)
    }

    /// Runs one request and tells the observer of it. The request yields its answer and the units that it states.
    pub(super) async fn observed<T>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<(T, f64), StoreError>>,
    ) -> Result<T, StoreError> {
        let in_progress = self.observer.as_ref().map(|observer| observer.begin(operation));
        let result = request.await;
        if let Some(in_progress) = in_progress {
            in_progress.end(match &result {
                Ok((_, capacity_units)) => CallReport { capacity_units: *capacity_units, failure: None },
                Err(error) => CallReport { capacity_units: 0.0, failure: Some(error.kind) },
            });
        }
        result.map(|(answer, _)| answer)
    }

    pub(super) fn failed<E: ServiceFailure>(
        &self,
        operation: &'static str,
        error: &SdkError<E, HttpResponse>,
    ) -> StoreError {
        super::error::store_error(operation, self.table, &self.name, error)
    }

    /// One conditional write as a call of its own.
    pub(super) async fn write_one(
        &self,
        operation: &'static str,
        write: Write,
        retry: Retry,
    ) -> Result<Outcome, StoreError> {
        self.observed(operation, async {
            match write {
                Write::Put { item, when } => self.put_item(operation, item, when, retry).await,
                Write::Update { key, set, remove, when } => {
                    self.update_item(operation, key, (set, remove), when, retry).await
                }
                Write::Delete { key, when } => self.delete_item(operation, key, when, retry).await,
            }
        })
        .await
    }

    async fn put_item(
        &self,
        operation: &'static str,
        item: Item,
        when: Condition,
        retry: Retry,
    ) -> Result<(Outcome, f64), StoreError> {
        let tries = Tries::default();
        let mut expressions = Expressions::default();
        let condition = expressions.condition(self.table, when);
        let (names, values) = expressions.into_maps();
        let request = self.client.put_item().table_name(&self.name).set_item(Some(to_attributes(item)));
        let result = request
            .condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(OldItem::AllOld)
            .set_return_consumed_capacity(self.capacity())
            .customize()
            .config_override(self.bounds(retry).interceptor(tries.watch::<PutItemError>()))
            .send()
            .await;
        match result {
            Ok(output) => Ok((Outcome::Done, units(output.consumed_capacity.as_ref()))),
            Err(error) => self.refusal(operation, error, &tries, |error| match error {
                PutItemError::ConditionalCheckFailedException(refusal) => Some(refusal),
                _ => None,
            }),
        }
    }

    async fn update_item(
        &self,
        operation: &'static str,
        key: Key,
        (set, remove): (Vec<(&'static str, Value)>, Vec<&'static str>),
        when: Condition,
        retry: Retry,
    ) -> Result<(Outcome, f64), StoreError> {
        let tries = Tries::default();
        let mut expressions = Expressions::default();
        let update = expressions.update(set, remove);
        let condition = expressions.condition(self.table, when);
        let (names, values) = expressions.into_maps();
        let request = self.client.update_item().table_name(&self.name).set_key(Some(self.key_attributes(key)));
        let result = request
            .update_expression(update)
            .condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(OldItem::AllOld)
            .set_return_consumed_capacity(self.capacity())
            .customize()
            .config_override(self.bounds(retry).interceptor(tries.watch::<UpdateItemError>()))
            .send()
            .await;
        match result {
            Ok(output) => Ok((Outcome::Done, units(output.consumed_capacity.as_ref()))),
            Err(error) => self.refusal(operation, error, &tries, |error| match error {
                UpdateItemError::ConditionalCheckFailedException(refusal) => Some(refusal),
                _ => None,
            }),
        }
    }

    async fn delete_item(
        &self,
        operation: &'static str,
        key: Key,
        when: Condition,
        retry: Retry,
    ) -> Result<(Outcome, f64), StoreError> {
        let tries = Tries::default();
        let mut expressions = Expressions::default();
        let condition = expressions.condition(self.table, when);
        let (names, values) = expressions.into_maps();
        let request = self.client.delete_item().table_name(&self.name).set_key(Some(self.key_attributes(key)));
        let result = request
            .condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(OldItem::AllOld)
            .set_return_consumed_capacity(self.capacity())
            .customize()
            .config_override(self.bounds(retry).interceptor(tries.watch::<DeleteItemError>()))
            .send()
            .await;
        match result {
            Ok(output) => Ok((Outcome::Done, units(output.consumed_capacity.as_ref()))),
            Err(error) => self.refusal(operation, error, &tries, |error| match error {
                DeleteItemError::ConditionalCheckFailedException(refusal) => Some(refusal),
                _ => None,
            }),
        }
    }

    /// A lost condition is an answer; everything else is a failure.
    fn refusal<E: ServiceFailure>(
        &self,
        operation: &'static str,
        error: SdkError<E, HttpResponse>,
        tries: &Tries,
        refusal: impl Fn(&E) -> Option<&ConditionalCheckFailedException>,
    ) -> Result<(Outcome, f64), StoreError> {
        match error.as_service_error().and_then(refusal) {
            Some(refusal) => Ok((Outcome::Refused(refusal.item.clone().map(from_attributes)), 0.0)),
            None => Err(least_certain(self.failed(operation, &error), tries.earlier_doubt())),
        }
    }

    /// One item, strongly consistent.
    pub(super) async fn get(&self, operation: &'static str, key: Key) -> Result<Option<Item>, StoreError> {
        self.observed(operation, async {
            let request = self.client.get_item().table_name(&self.name).set_key(Some(self.key_attributes(key)));
            let output = request
                .consistent_read(true)
                .set_return_consumed_capacity(self.capacity())
                .customize()
                .config_override(self.bounds(Retry::ByPolicy))
                .send()
                .await
                .map_err(|error| self.failed(operation, &error))?;
            Ok((output.item.map(from_attributes), units(output.consumed_capacity.as_ref())))
        })
        .await
    }

    /// One page of a partition in key order, strongly consistent.
    pub(super) async fn query(&self, operation: &'static str, query: Query<'_>) -> Result<QueryPage, StoreError> {
        let mut expressions = Expressions::default();
        let partition = expressions.name(self.table.partition_attribute());
        let partition_value = expressions.value(Value::text(query.partition));
        let mut condition = format!("{partition} = {partition_value}");
        if let Some(after) = query.after {
            let sort = expressions.name(self.table.sort_attribute());
            let after = expressions.value(Value::text(after));
            condition = format!("{condition} AND {sort} > {after}");
        }
        let (names, values) = expressions.into_maps();
        self.observed(operation, async {
            let output = self
                .client
                .query()
                .table_name(&self.name)
                .key_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_limit(query.limit.map(|limit| i32::try_from(limit.max(1)).unwrap_or(i32::MAX)))
                .consistent_read(true)
                .set_return_consumed_capacity(self.capacity())
                .customize()
                .config_override(self.bounds(Retry::ByPolicy))
                .send()
                .await
                .map_err(|error| self.failed(operation, &error))?;
            let units = units(output.consumed_capacity.as_ref());
            let last = output.last_evaluated_key.map(from_attributes).and_then(|key| self.table.key_of(&key));
            let items = output.items.unwrap_or_default().into_iter().map(from_attributes).collect();
            Ok((QueryPage { items, next_after: last.map(|key| key.sort) }, units))
        })
        .await
    }

    /// A key as the SDK takes it.
    pub(super) fn key_attributes(&self, key: Key) -> Attributes {
        Attributes::from([
            (self.table.partition_attribute().to_owned(), to_attribute(Value::Text(key.partition))),
            (self.table.sort_attribute().to_owned(), to_attribute(Value::Text(key.sort))),
        ])
    }
}

/// What part of a partition to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a> {
    /// The partition key.
    pub(super) partition: &'a str,
    /// Only items whose sort key is above this one.
    pub(super) after: Option<&'a str>,
    /// Items at most; `None`: as many as a page holds.
    pub(super) limit: Option<usize>,
}

/// A page of a query.
#[derive(Debug)]
pub(super) struct QueryPage {
    /// The items.
    pub(super) items: Vec<Item>,
    /// The sort key after which the next page begins; `None`: nothing follows.
    pub(super) next_after: Option<String>,
}

pub(super) fn units(capacity: Option<&ConsumedCapacity>) -> f64 {
    capacity.and_then(ConsumedCapacity::capacity_units).unwrap_or(0.0)
}
