//! The end: everything drained, and the books compared with what stands in tables and queue, read directly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fencepost_local::queue::{AttributeContent, StoredMessage};
use fencepost_protocol::ids::{LeaseName, MessageId, PayloadDigest, Position, RowKey, Shard};
use fencepost_protocol::outbox::Slot;
use fencepost_runtime::clock::{Clock as _, SystemClock};
use fencepost_storage::dynamodb::DynamoOutbox;
use fencepost_storage::{CallPolicy, Outbox as _, Page, StoreError};

use super::ledger::Ledger;
use super::publisher::Published;
use super::{DRAINED_WITHIN, Failure, LEASE, PROGRESS_WITHIN, QUEUE, SHARDS, Services, wire};
use crate::proxy::Tap;

/// What the verdict is made from.
pub(super) struct World<'a> {
    pub(super) services: &'a Services,
    pub(super) ledger: &'a Ledger,
    pub(super) tap: &'a Tap,
}

impl World<'_> {
    /// Waits until the last late packet has come and no row is outstanding; false where nothing moves any more.
    pub(super) async fn wait_until_drained(&self, late: Duration) -> Result<bool, Failure> {
        tokio::time::sleep(late + Duration::from_secs(1)).await;
        let began = Instant::now();
        let (mut fewest, mut moved) = (usize::MAX, Instant::now());
        loop {
            let left = self.outstanding().await?.len();
            if left == 0 {
                return Ok(true);
            }
            if left < fewest {
                (fewest, moved) = (left, Instant::now());
            }
            if moved.elapsed() > PROGRESS_WITHIN || began.elapsed() > DRAINED_WITHIN {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Every violation of the run.
    pub(super) async fn judge(&self, published: &Published, drained: bool) -> Result<Vec<String>, Failure> {
        let read = async { Ok::<_, Failure>((self.outstanding().await?, self.dead().await?)) };
        let (outstanding, dead) = self.tap.quiet(read).await?;
        let unseen = self.tap.unseen().into_iter();
        let mut violations: Vec<String> =
            unseen.map(|write| format!("the run says nothing, a service left a write unanswered: {write}")).collect();
        if !drained {
            let keys: Vec<String> = outstanding.iter().take(5).map(ToString::to_string).collect();
            violations.push(format!(
                "not drained: {} rows are outstanding, such as {}",
                outstanding.len(),
                keys.join(", ")
            ));
        }
        let queue = self.services.queue.messages(QUEUE);
        violations.extend(self.compare(published, &queue, &outstanding, &dead));
        violations.extend(self.ledger.close(SystemClock::new().now().wall, &outstanding, &dead));
        Ok(violations)
    }

    /// What was acknowledged against what is there, without the ledger's help.
    fn compare(
        &self,
        published: &Published,
        queue: &[StoredMessage],
        outstanding: &[RowKey],
        dead: &[RowKey],
    ) -> Vec<String> {
        let mut violations = Vec::new();
        let mut arrived: BTreeMap<MessageId, BTreeSet<PayloadDigest>> = BTreeMap::new();
        for message in queue {
            match sent(message) {
                Some(sent) => drop(arrived.entry(sent.id).or_default().insert(sent.digest)),
                None => violations.push(format!("queue message {} cannot be read", message.message_id)),
            }
        }
        let kept: BTreeSet<&MessageId> = outstanding.iter().chain(dead).map(|key| key.position.id()).collect();
        for id in published.acknowledged.keys() {
            if !arrived.contains_key(id) && !kept.contains(id) {
                let seen = self.ledger.was_accepted(id);
                violations.push(format!("P1: {id} was acknowledged and is nowhere (seen by the queue: {seen})"));
            }
        }
        for (id, digests) in &arrived {
            match published.offered.get(id) {
                None => violations.push(format!("{id} is in the queue and was never published")),
                Some(digest) if digests.iter().any(|one| one != digest) => {
                    violations.push(format!("P1: {id} arrived with other bytes than were published"));
                }
                Some(_) => {}
            }
        }
        violations
    }

    async fn outstanding(&self) -> Result<Vec<RowKey>, Failure> {
        let outbox = self.outbox();
        every_key(async |shard: &Shard, after: Option<&Position>| outbox.page(shard, after, 100).await).await
    }

    async fn dead(&self) -> Result<Vec<RowKey>, Failure> {
        let outbox = self.outbox();
        every_key(async |shard: &Shard, after: Option<&Position>| outbox.dead_page(shard, after, 100).await).await
    }

    fn outbox(&self) -> DynamoOutbox {
        let policy = CallPolicy::in_thirds(Duration::from_secs(15));
        DynamoOutbox::new(&self.services.clients, "crash-outbox", policy, true, None)
    }
}

/// The keys of all rows that `read` shows, page after page.
async fn every_key<T>(
    read: impl AsyncFn(&Shard, Option<&Position>) -> Result<Page<T>, StoreError>,
) -> Result<Vec<RowKey>, Failure> {
    let mut keys = Vec::new();
    for shard in shards()? {
        let mut after: Option<Position> = None;
        loop {
            let page = read(&shard, after.as_ref()).await?;
            after.clone_from(&page.next);
            keys.extend(keys_of(&shard, &page)?);
            if after.is_none() {
                break;
            }
        }
    }
    Ok(keys)
}

fn shards() -> Result<Vec<Shard>, Failure> {
    let lease = LeaseName::new(LEASE)?;
    (0..SHARDS).map(|index| Ok(Shard::new(lease.clone(), index)?)).collect()
}

/// The keys of a page. A row that does not decode is a finding of its own.
fn keys_of<T>(shard: &Shard, page: &Page<T>) -> Result<Vec<RowKey>, Failure> {
    let key = |(position, slot): &(Position, Slot<T>)| match slot {
        Slot::Damaged(damage) => Err(format!("{shard}/{position} is damaged: {damage}").into()),
        Slot::Present(_) | Slot::Absent => Ok(RowKey { shard: shard.clone(), position: position.clone() }),
    };
    page.rows.iter().map(key).collect()
}

fn sent(message: &StoredMessage) -> Option<wire::Sent> {
    let text = |content: &AttributeContent| match content {
        AttributeContent::Text(text) => text.clone(),
        AttributeContent::Bytes(_) => String::new(),
    };
    let attributes: Vec<(String, String)> =
        message.attributes.iter().map(|(name, attribute)| (name.clone(), text(&attribute.content))).collect();
    wire::sent(&message.body, &attributes)
}
