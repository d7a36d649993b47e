//! What happens, as lines for a person: seconds since the start, a word, a sentence.
//!
//! One line for each change of the lease, of an instance, of a record's fate. What happens to each message has no line: the
//! numbers go by as a line of their own ([`flow`]).

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use fencepost_local::world::{Counts, WorldEvent};
use fencepost_protocol::time::Timestamp;
use serde_json::Value;

use crate::output::{coloured, styled};

/// What a line is about. It is always in the line as a word, so that nothing depends on colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Start,
    Lease,
    Flow,
    Kill,
    Takeover,
    Handover,
    Dead,
    Trouble,
    Wait,
    Audit,
}

impl Topic {
    const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Lease => "lease",
            Self::Flow => "flow",
            Self::Kill => "kill",
            Self::Takeover => "takeover",
            Self::Handover => "handover",
            Self::Dead => "dead",
            Self::Trouble => "trouble",
            Self::Wait => "wait",
            Self::Audit => "audit",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Start | Self::Audit => coloured(AnsiColor::Blue),
            Self::Lease | Self::Takeover | Self::Handover => coloured(AnsiColor::Green),
            Self::Kill | Self::Dead => coloured(AnsiColor::Red),
            Self::Trouble => coloured(AnsiColor::Yellow),
            Self::Flow | Self::Wait => Style::new().dimmed(),
        }
    }
}

/// One line of the timeline, at `at` of a run that began at `start`.
pub(crate) fn line(start: Timestamp, at: Timestamp, topic: Topic, text: &str) -> String {
    let word = format!("{:<9}", topic.word());
    format!("{:>7}  {}{text}", seconds(at.since(start)), styled(topic.style(), &word))
}

/// A duration as seconds with one decimal: `16.4s`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1}s", duration.as_secs_f64())
}

/// A number with a comma at each thousand.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The numbers since the world's start as one line. What waits in the outbox is not among them: to know it, all of it must be
/// read. A message that an ingest stored and died before it could say so counts with its second try, as a duplicate.
pub(crate) fn flow(counts: &Counts) -> String {
    let ingested = counts.acknowledged();
    format!(
        "published {:>6}   ingested {:>6}   sent {:>6}   committed {:>6}",
        grouped(counts.published),
        grouped(ingested),
        grouped(counts.sent),
        grouped(counts.committed),
    )
}

/// What an event is, in words; `None` for what happens to each message.
pub(crate) fn describe(event: &WorldEvent) -> Option<(Topic, String)> {
    Some(match event {
        WorldEvent::Started { instance } => (Topic::Start, format!("{instance} is up")),
        WorldEvent::Killed { instance } => (Topic::Kill, format!("{instance} is dead")),
        WorldEvent::Lease { instance, transition, token, reason, .. } => {
            (Topic::Lease, lease_words(instance.as_str(), transition, *token, reason.as_deref()))
        }
        WorldEvent::TakeoverCompleted { instance, token, detail } => {
            (Topic::Takeover, format!("{instance} finished the takeover of token {token}{}", counts_of(detail)))
        }
        WorldEvent::RecordsDead { instance, detail } => {
            (Topic::Dead, format!("{instance} gave records up{}", counts_of(detail)))
        }
        WorldEvent::IngestFailed { instance, attempt, error, kept, .. } => {
            let next = if *kept { "kept on the failures list" } else { "tried again" };
            (Topic::Trouble, format!("ingest by {instance}, try {attempt}: {error}; {next}"))
        }
        WorldEvent::ExecutionFailed { instance, machine, error, cause, .. } => {
            (Topic::Trouble, format!("{machine} of {instance} failed with {error}: {cause}"))
        }
        WorldEvent::FunctionFailed { instance, function, error_type, message } => {
            (Topic::Trouble, format!("{function} of {instance} failed with {error_type}: {message}"))
        }
        WorldEvent::Stopping { waiting, quiet_ms_left } => {
            let quiet = seconds(Duration::from_millis(*quiet_ms_left));
            let text = format!(
                "the broker is closed; {} messages wait for ingest; they are dropped if it acknowledges none for {quiet}, or \
                 at a second Ctrl-C",
                grouped(*waiting)
            );
            (Topic::Wait, text)
        }
        WorldEvent::Dropped { messages, reason } => {
            let text =
                format!("{} messages that the broker had acknowledged are dropped: {reason}", grouped(*messages));
            (Topic::Trouble, text)
        }
        WorldEvent::Trouble { what } => (Topic::Trouble, what.clone()),
        WorldEvent::Published { .. }
        | WorldEvent::Ingested { .. }
        | WorldEvent::Claimed { .. }
        | WorldEvent::Sent { .. }
        | WorldEvent::Committed { .. } => return None,
    })
}

fn lease_words(instance: &str, transition: &str, token: Option<u64>, reason: Option<&str>) -> String {
    let verb = transition.strip_prefix("Lease ").map_or_else(|| transition.to_lowercase(), str::to_lowercase);
    let mut text = match transition.strip_prefix("Lease ") {
        Some(_) => format!("{instance} {verb} the lease"),
        None => format!("{instance}: {verb}"),
    };
    if let Some(token) = token {
        text.push_str(&format!(", token {token}"));
    }
    if let Some(reason) = reason {
        text.push_str(&format!(" ({reason})"));
    }
    text
}

/// The numbers of an event's `counts` that are not zero, in words.
fn counts_of(detail: &Value) -> String {
    let numbers = detail.get("counts").unwrap_or(detail).as_object();
    let told: Vec<String> = numbers
        .into_iter()
        .flatten()
        .filter(|(name, _)| !matches!(name.as_str(), "token" | "try"))
        .filter_map(|(name, value)| value.as_u64().filter(|number| *number > 0).map(|number| (name, number)))
        .map(|(name, number)| format!("{} {}", name.replace('_', " "), grouped(number)))
        .collect();
    if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) }
}

#[cfg(test)]
mod tests {
    use fencepost_protocol::ids::InstanceName;
    use serde_json::json;

    use super::*;

    fn instance(name: &str) -> InstanceName {
        InstanceName::new(name).unwrap()
    }

    #[test]
    fn a_line_has_time_word_and_sentence() {
        let text = line(Timestamp::from_ms(1_000), Timestamp::from_ms(17_420), Topic::Kill, "east is dead");
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), "  16.4s  kill     east is dead");
    }

    #[test]
    fn transitions_of_the_lease_read_as_sentences() {
        let told = |transition: &str, token, reason: Option<&str>| {
            let (transition, reason) = (transition.to_owned(), reason.map(str::to_owned));
            describe(&WorldEvent::Lease { instance: instance("west"), transition, token, reason, at_ms: 0 }).unwrap().1
        };
        assert_eq!(told("Lease Seized", Some(2), None), "west seized the lease, token 2");
        assert_eq!(told("Lease Lost", Some(1), Some("superseded")), "west lost the lease, token 1 (superseded)");
        assert_eq!(told("Step Down Requested", Some(2), None), "west: step down requested, token 2");
    }

    #[test]
    fn counts_leave_out_what_did_not_happen() {
        let detail = json!({"token": 2, "counts": {"claimed": 1204, "fenced": 0, "handed_back": 3}});
        let event = WorldEvent::TakeoverCompleted { instance: instance("west"), token: 2, detail };
        let expected = "west finished the takeover of token 2: claimed 1,204, handed back 3";
        assert_eq!(describe(&event), Some((Topic::Takeover, expected.to_owned())));
    }

    #[test]
    fn single_messages_have_no_line() {
        assert_eq!(describe(&WorldEvent::Sent { instance: instance("east"), rows: 10 }), None);
    }

    #[test]
    fn every_way_to_be_stored_counts_as_ingested() {
        let counts =
            Counts { published: 1_250, ingested: 1_200, duplicates_ingest: 3, recovered: 2, ..Counts::default() };
        let expected = "published  1,250   ingested  1,205   sent      0   committed      0";
        assert_eq!(flow(&counts), expected);
    }

    #[test]
    fn an_end_that_drops_messages_says_how_many_and_why() {
        let event = WorldEvent::Dropped { messages: 1_265, reason: "no instance lives".to_owned() };
        let expected = "1,265 messages that the broker had acknowledged are dropped: no instance lives";
        assert_eq!(describe(&event), Some((Topic::Trouble, expected.to_owned())));
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let texts = [0, 999, 1_000, 20_000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "20,000", "1,234,567"]);
    }
}
