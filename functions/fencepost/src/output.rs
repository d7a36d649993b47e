//! The only room that writes to the terminal.
//!
//! What a program reads (JSON) goes to standard output, unstyled, each line in one write. What a person reads goes to a
//! [`Screen`]; colours are left out where the stream is no terminal, where `NO_COLOR` is set or where they are not wanted.
//! Diagnostics (`diagnostics`) go to standard error.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

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

/// Says what a person should know before they wait.
pub(crate) fn warn(text: &str) {
    Screen::new(Target::Stderr, true).line(&format!("{}: {text}", styled(coloured(AnsiColor::Yellow), "warning")));
}

/// Says why the command fails.
pub(crate) fn complain(error: &CommandError) {
    let screen = Screen::new(Target::Stderr, true);
    for line in error.to_string().lines() {
        screen.line(&format!("{}: {line}", styled(coloured(AnsiColor::Red), "error")));
    }
}
