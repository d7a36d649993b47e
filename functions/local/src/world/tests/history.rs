//! The history judges by what the stream says became true, and finds what it must find.

use fencepost_protocol::ids::{
    FencingToken, InstanceName, LeaseName, MessageId, PayloadDigest, Position, RowKey, Shard,
};
use fencepost_protocol::outbox::OutboxRow;
use fencepost_protocol::time::Timestamp;
use serde_json::{Value, json};

use crate::world::history::History;

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

fn lease() -> LeaseName {
    LeaseName::new("telemetry").unwrap()
}

fn row(id: &str) -> OutboxRow {
    let position = Position::new(NOW, MessageId::new(id).unwrap()).unwrap();
    OutboxRow::pending(
        RowKey { shard: Shard::new(lease(), 0).unwrap(), position },
        b"payload".to_vec(),
        "telemetry/pump".to_owned(),
        InstanceName::new("east").unwrap(),
    )
}

fn change(kind: &str, row: &OutboxRow) -> Value {
    let keys = json!({
        "shard": { "S": row.key.shard.to_string() },
        "position": { "S": row.key.position.to_string() },
    });
    json!({ "eventName": kind, "dynamodb": { "Keys": keys } })
}

struct Story {
    history: History,
    row: OutboxRow,
}

impl Story {
    fn new() -> Self {
        Self { history: History::new(lease(), false), row: row("a") }
    }

    fn stored(mut self) -> Self {
        self.history.putting(&self.row, false);
        self.history.changed(&change("INSERT", &self.row));
        self
    }

    fn accepted(mut self) -> Self {
        self.history.accepted(self.row.id().clone(), PayloadDigest::of(&self.row.payload));
        self
    }

    fn committed(mut self) -> Self {
        self.history.committing(&self.row.key, FencingToken::FIRST);
        self.history.changed(&change("REMOVE", &self.row));
        self
    }

    /// What is broken, given whether the row is outstanding at the end.
    fn broken(self, outstanding: bool) -> String {
        let keys: Vec<RowKey> = outstanding.then(|| self.row.key.clone()).into_iter().collect();
        let judgement = self.history.judge(NOW, &keys, &[]);
        let violations: Vec<String> = judgement.violations.iter().map(ToString::to_string).collect();
        format!("{} twice: {}", violations.join("; "), judgement.committed_twice.len())
    }
}

#[test]
fn a_row_that_was_stored_sent_and_committed_is_in_order() {
    assert_eq!(Story::new().stored().accepted().committed().broken(false), " twice: 0");
    assert_eq!(Story::new().stored().broken(true), " twice: 0");
}

#[test]
fn an_event_delivered_again_after_its_commit_is_a_second_life() {
    assert_eq!(Story::new().stored().accepted().committed().stored().committed().broken(false), " twice: 0");
}

#[test]
fn a_row_that_comes_back_from_nowhere_is_committed_twice() {
    let mut story = Story::new().stored().accepted().committed();
    story.history.changed(&change("INSERT", &story.row));
    let broken = story.committed().broken(false);
    assert!(broken.contains("I3") && broken.contains("twice: 1"), "{broken}");
}

#[test]
fn a_row_that_vanished_is_lost() {
    let mut story = Story::new().stored();
    story.history.changed(&change("REMOVE", &story.row));
    let broken = story.broken(false);
    assert!(broken.contains("I5") && broken.contains("lost"), "{broken}");
}

#[test]
fn a_commit_without_the_queues_word_is_found() {
    let broken = Story::new().stored().committed().broken(false);
    assert!(broken.contains("I4"), "{broken}");
}

#[test]
fn a_refused_commit_deleted_nothing() {
    let mut story = Story::new().stored().accepted();
    story.history.committing(&story.row.key, FencingToken::FIRST);
    story.history.commit_refused(&story.row.key, FencingToken::FIRST);
    story.history.changed(&change("REMOVE", &story.row));
    let broken = story.broken(false);
    assert!(broken.contains("lost"), "nobody that we know removed it: {broken}");
}

#[test]
fn changes_of_other_partitions_are_no_rows() {
    let mut history = History::new(lease(), false);
    for shard in ["sent#a", "fence#telemetry", "dead#telemetry#0000", "other#0000"] {
        let keys = json!({ "shard": { "S": shard }, "position": { "S": "1800000000000#a" } });
        history.changed(&json!({ "eventName": "INSERT", "dynamodb": { "Keys": keys } }));
        history.changed(&json!({ "eventName": "REMOVE", "dynamodb": { "Keys": keys } }));
    }
    assert!(history.judge(NOW, &[], &[]).violations.is_empty());
}
