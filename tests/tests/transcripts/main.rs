//! Races told as text: each file of `tests/transcripts` explains one, holds the script that makes it happen, and the history
//! that the simulator then tells. Here the scripts are played and the histories compared, line by line.
//!
//! A file is data; no code belongs to a single race. `TRANSCRIPTS=rewrite` writes what happens now into the files, but only
//! where every expectation of the script held and no invariant was broken.

mod act;
mod difference;
mod expectation;
mod fault;
mod play;
mod script;
mod transcript;
mod words;

use std::collections::BTreeSet;
use std::{fmt, fs};

use transcript::Transcript;

/// Why a transcript does not hold, in lines that are meant to be read: a test that fails shows its error by `Debug`.
struct Failure(String);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Plays one file and compares; the message is for who reads the failure.
fn check(name: &str) -> Result<(), String> {
    let path = transcript::folder().join(format!("{name}.txt"));
    let shown = format!("tests/transcripts/{name}.txt");
    let text = fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
    let transcript = Transcript::parse(&text).map_err(|fault| format!("{shown}:{fault}"))?;
    let script = script::parse(&transcript.script).map_err(|fault| format!("{shown}:{fault}"))?;
    let told = play::play(&script).map_err(|fault| format!("{shown}:{fault}"))?;
    if told == transcript.history {
        return Ok(());
    }
    if std::env::var("TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite") {
        return fs::write(&path, transcript.with_history(&told)).map_err(|error| format!("{shown}: {error}"));
    }
    let difference = difference::between(&transcript.history, &told);
    Err(format!("{shown} tells another history (- the file, + what happens now):\n{difference}\n{REWRITE}"))
}

const REWRITE: &str = "If that is right: tests/run transcripts --rewrite, and read what it changed.";

macro_rules! races {
    ($($test:ident: $name:literal,)*) => {
        mod races {
            $(#[test]
            fn $test() -> Result<(), super::Failure> {
                super::check($name).map_err(super::Failure)
            })*
        }

        const NAMES: &[&str] = &[$($name,)*];
    };
}

races! {
    transcript_takeover_after_expiry: "takeover_after_expiry",
    transcript_two_ticks_at_once: "two_ticks_at_once",
    transcript_renewal_reply_lost: "renewal_reply_lost",
    transcript_lost_lease_table: "lost_lease_table",
    transcript_handover_in_flight: "handover_in_flight",
    transcript_abandoned_step_down: "abandoned_step_down",
    transcript_paused_holder_is_fenced: "paused_holder_is_fenced",
    transcript_crash_between_send_and_commit: "crash_between_send_and_commit",
    transcript_former_holder_sent_and_wrote_the_tombstone: "former_holder_sent_and_wrote_the_tombstone",
    transcript_claim_reply_lost: "claim_reply_lost",
    transcript_duplicate_event_inside_the_window: "duplicate_event_inside_the_window",
    transcript_queue_down_five_minutes: "queue_down_five_minutes",
    transcript_fifo_head_in_backoff: "fifo_head_in_backoff",
    transcript_redrive_while_dying: "redrive_while_dying",
    transcript_poisoned_record_dies_alone: "poisoned_record_dies_alone",
}

mod files {
    use super::{BTreeSet, NAMES, fs, transcript};

    /// A file without a test would be believed and never checked.
    #[test]
    fn transcript_every_file_has_its_test() -> Result<(), String> {
        let entries = fs::read_dir(transcript::folder()).map_err(|error| error.to_string())?;
        let mut files = BTreeSet::new();
        for entry in entries {
            let name = entry.map_err(|error| error.to_string())?.file_name();
            files.insert(name.to_string_lossy().into_owned());
        }
        let expected: BTreeSet<String> = NAMES.iter().map(|name| format!("{name}.txt")).collect();
        assert_eq!(files, expected, "tests/transcripts against the list in tests/tests/transcripts/main.rs");
        Ok(())
    }
}
