//! The only room that writes to the terminal.
//!
//! What a program reads (JSON) goes to standard output, unstyled, each line in one write. What a person reads goes to a
//! [`Screen`]; colours are left out where the stream is no terminal, where `NO_COLOR` is set or where they are not wanted.
//! Diagnostics go to standard error.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::CommandError;

/// Where a person reads.
pub(crate) struct Screen(Mutex<Box<dyn Write + Send>>);

/// Which stream a screen is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Stdout,
    Stderr,
}

impl Screen {
    /// A screen. `colour` false: none, whatever the stream is.
    pub(crate) fn new(target: Target, colour: bool) -> Self {
        let choice = if colour { ColorChoice::Auto } else { ColorChoice::Never };
        Self(Mutex::new(match target {
            Target::Stdout => Box::new(AutoStream::new(io::stdout(), choice)),
            Target::Stderr => Box::new(AutoStream::new(io::stderr(), choice)),
        }))
    }

    /// Writes one line, or several. A stream that nobody reads any more is no reason to end the work.
    pub(crate) fn line(&self, text: &str) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(stream, "{text}").and_then(|()| stream.flush());
    }
}

/// `text` in `style`, with the codes that a stream without colours takes out again.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A colour for a word.
pub(crate) fn coloured(colour: AnsiColor) -> Style {
    colour.on_default().bold()
}

/// Writes one JSON object as one line to standard output.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    // One write: a reader, or a kill, never sees half of it.
    stdout.write_all(&line)?;
    stdout.flush()
}

/// Says why the command fails.
pub(crate) fn complain(error: &CommandError) {
    let screen = Screen::new(Target::Stderr, true);
    for line in error.to_string().lines() {
        screen.line(&format!("{}: {line}", styled(coloured(AnsiColor::Red), "error")));
    }
}

/// Shows warnings of the world's endpoints. What instances and executions do is told by events, not by logs; and a
/// library's own lines may hold payloads.
pub(crate) fn init_logs() {
    let shown = Targets::new().with_target("fencepost_local", LevelFilter::WARN);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false).without_time().compact();
    tracing_subscriber::registry().with(lines).with(shown).init();
}
