//! The final table of a run, for a person.

use std::time::Duration;

use anstyle::AnsiColor;

use super::verdict::Verdict;
use crate::output::{coloured, styled};
use crate::timeline::{grouped, seconds};

/// The table and the last word.
pub(crate) fn render(verdict: &Verdict) -> String {
    let figures = &verdict.figures;
    let number = |value| format!("{:>9}", grouped(value));
    let again = figures.delivered_total.saturating_sub(figures.delivered_unique);
    let rows = [
        ("published", number(figures.published), "acknowledged by the MQTT broker".to_owned()),
        ("ingested", number(figures.ingested), "acknowledged by ingest".to_owned()),
        ("delivered", number(figures.delivered_unique), delivered_note(again)),
        (
            "duplicates known",
            number(figures.duplicates_known),
            "sends that the bridge counted as possibly second".to_owned(),
        ),
        ("commits fenced", number(figures.commits_fenced), "commits of a former holder that were refused".to_owned()),
        ("outstanding", number(verdict.outstanding), "stored, not delivered yet".to_owned()),
        ("dead", number(figures.dead), "records given up".to_owned()),
        ("lost", number(figures.lost), "published, and in no store: by the hashes of the demo's own ledger".to_owned()),
        ("committed twice", number(verdict.committed_twice), "rows that left the outbox more than once".to_owned()),
        ("tokens", format!("{:>9}", tokens(&figures.tokens)), "fencing tokens, in the order of their issue".to_owned()),
        ("takeover", took(figures.takeover_ms), takeover_note(verdict)),
        (
            "handover",
            took(figures.handover_ms),
            format!("bound {}, from the request to step down", ms(figures.handover_bound_ms)),
        ),
    ];
    let mut text = String::from("\n");
    for (name, value, note) in rows {
        text.push_str(&format!("  {name:<17}{value}   {note}\n"));
    }
    text.push('\n');
    text.push_str(&last_word(verdict));
    text
}

fn delivered_note(again: u64) -> String {
    match again {
        0 => "different messages in the queue, none of them twice".to_owned(),
        1 => "different messages in the queue; one of them lies there twice".to_owned(),
        more => format!("different messages in the queue, and {} second copies", grouped(more)),
    }
}

fn takeover_note(verdict: &Verdict) -> String {
    let from_kill =
        verdict.times.takeover_from_kill.map_or_else(String::new, |took| format!(" ({} after the kill)", ms(took)));
    format!("bound {}, from the dead leader's last renewal{from_kill}", ms(verdict.figures.takeover_bound_ms))
}

fn last_word(verdict: &Verdict) -> String {
    if verdict.broken.is_empty() {
        return styled(
            coloured(AnsiColor::Green),
            "everything was kept: nothing lost, nothing committed twice, both bounds met",
        );
    }
    let promises = if verdict.broken.len() == 1 { "a promise was" } else { "promises were" };
    styled(coloured(AnsiColor::Red), &format!("{promises} broken; the lines below say which"))
}

fn tokens(tokens: &[u64]) -> String {
    let texts: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    texts.join(" < ")
}

fn took(took_ms: Option<u64>) -> String {
    format!("{:>9}", took_ms.map_or_else(|| "never".to_owned(), ms))
}

fn ms(milliseconds: u64) -> String {
    seconds(Duration::from_millis(milliseconds))
}
