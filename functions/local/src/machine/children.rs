//! States that run others: `Map` over items and `Parallel` over branches.
//!
//! Each item or branch has its own variables, begun as a copy of those around it and gone with it. The first one to fail fails
//! the whole state with its own error; the others end where they stand.

use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use super::TaskError;
use super::definition::Graph;
use super::execution::{Frame, Run, Visit};
use super::expression::Template;
use super::view::{Item, View};

/// As many items of one inline map run at once on AWS.
const CONCURRENCY_MAX: u32 = 40;

/// An item and the input that its states begin with.
pub(super) struct Entry {
    item: Item,
    input: Value,
}

impl Run<'_> {
    /// The items of a map, with `ItemSelector` evaluated for each.
    pub(super) fn map_items(
        &self,
        items: Option<&Template>,
        selector: Option<&Template>,
        visit: Visit<'_>,
        frame: &Frame,
    ) -> Result<Vec<Entry>, TaskError> {
        let view = self.view(visit, frame);
        let Value::Array(items) = view.value_or(items, "Items", || visit.input.clone())? else {
            return Err(TaskError::query(format!("state {}, Items: not a list", visit.name)));
        };
        let entry = |(index, value)| {
            let item = Item { index, value: Arc::new(value) };
            let view = View { item: Some(&item), ..self.view(visit, frame) };
            let input = view.value_or(selector, "ItemSelector", || Value::clone(&item.value))?;
            Ok(Entry { item, input })
        };
        items.into_iter().enumerate().map(entry).collect()
    }

    /// Runs `body` for each entry, at most `concurrency_max` at once (0: as many as AWS would), and gives the outputs in the
    /// order of the items.
    pub(super) async fn map(
        &self,
        body: &Graph,
        entries: Vec<Entry>,
        concurrency_max: u32,
        frame: &Frame,
    ) -> Result<Value, TaskError> {
        let at_once = if concurrency_max == 0 { CONCURRENCY_MAX } else { concurrency_max.min(CONCURRENCY_MAX) };
        let mut runs = Vec::with_capacity(entries.len());
        for Entry { item, input } in entries {
            let index = item.index;
            let run = self.graph(body, Arc::new(input), Frame { variables: frame.variables.clone(), item: Some(item) });
            runs.push(async move { run.await.map(|output| (index, output)) });
        }
        let at_once = usize::try_from(at_once).unwrap_or(usize::MAX);
        let mut outputs: Vec<_> = stream::iter(runs).buffer_unordered(at_once).try_collect().await?;
        outputs.sort_unstable_by_key(|(index, _)| *index);
        Ok(Value::Array(outputs.into_iter().map(|(_, output)| Arc::unwrap_or_clone(output)).collect()))
    }

    /// Runs all branches at once with the same input and gives their outputs in the order of the branches.
    pub(super) async fn parallel(&self, branches: &[Graph], input: Value, frame: &Frame) -> Result<Value, TaskError> {
        let input = Arc::new(input);
        let runs = branches.iter().map(|branch| self.graph(branch, Arc::clone(&input), frame.clone()));
        let outputs = try_join_all(runs).await?;
        Ok(Value::Array(outputs.into_iter().map(Arc::unwrap_or_clone).collect()))
    }
}
