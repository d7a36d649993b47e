//! A transcript's file: what it says to its reader, its script, its history.

use std::path::PathBuf;

/// The marker above the script.
const SCRIPT: &str = "== script";
/// The marker above the history.
const HISTORY: &str = "== history";

/// Where the files lie.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

/// A file, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transcript {
    /// Everything above the history, as it stands.
    head: String,
    /// The script's lines, each with its number in the file.
    pub(crate) script: Vec<(usize, String)>,
    /// The history's lines.
    pub(crate) history: Vec<String>,
}

impl Transcript {
    /// Takes a file apart. A fault begins with its line's number.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text.lines().collect();
        let marker = |marker: &str| {
            let at = lines.iter().position(|line| *line == marker);
            at.ok_or_else(|| format!("{}: there is no line `{marker}`", lines.len()))
        };
        let (script, history) = (marker(SCRIPT)?, marker(HISTORY)?);
        if history < script {
            return Err(format!("{}: `{HISTORY}` stands above `{SCRIPT}`", history + 1));
        }
        if lines[0].trim().is_empty() || lines.get(1).is_some_and(|line| !line.is_empty()) {
            return Err("1: a transcript begins with its title and an empty line".to_owned());
        }
        if lines[1..script].iter().all(|line| line.trim().is_empty()) {
            return Err("2: say what the race is, why it is dangerous and what keeps it safe".to_owned());
        }
        let numbered = (script + 1..history).map(|index| (index + 1, lines[index].to_owned()));
        Ok(Self {
            head: lines[..=history].join("\n"),
            script: numbered.collect(),
            history: lines[history + 1..].iter().map(|line| (*line).to_owned()).collect(),
        })
    }

    /// The file with another history.
    pub(crate) fn with_history(&self, history: &[String]) -> String {
        format!("{}\n{}\n", self.head, history.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "A race\n\nWhy it is dangerous.\n\n== script\nrun 1s\n\n== history\n> run 1s\n";

    #[test]
    fn a_file_is_taken_apart_and_put_together() {
        let transcript = Transcript::parse(FILE).unwrap();
        assert_eq!(transcript.script, [(6, "run 1s".to_owned()), (7, String::new())]);
        assert_eq!(transcript.history, ["> run 1s"]);
        assert_eq!(transcript.with_history(&transcript.history), FILE);
        let longer = transcript.with_history(&["one".to_owned(), "two".to_owned()]);
        assert!(longer.ends_with("== history\none\ntwo\n"));
    }

    #[test]
    fn what_is_missing_is_told_with_its_line() {
        let fault = |text: &str| Transcript::parse(text).unwrap_err();
        assert_eq!(fault("A race\n\nWhy.\n== history\n"), "4: there is no line `== script`");
        assert_eq!(fault("A race\n\nWhy.\n== script\n"), "4: there is no line `== history`");
        assert!(fault("A race\n\nWhy.\n== history\n== script\n").starts_with("4: "));
        assert!(fault("\nA race\n== script\n== history\n").starts_with("1: a transcript begins"));
        assert!(fault("A race\n\n== script\n== history\n").starts_with("2: say what the race is"));
    }
}
