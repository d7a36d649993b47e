//! The corpus: seeds with their verdicts, kept for ever.
//!
//! A seed is `{"why": …, "refused": null or the field, "input": …}` in `tests/corpus/<decoder>/<name>.json`. The sample events
//! of the functions are seeds that are accepted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::decoder::{DECODERS, Decoder};

/// An input and what must come of it.
pub(crate) struct Seed {
    /// Its file's name.
    pub(crate) name: String,
    /// The field that it is refused for; `None`: it is accepted.
    pub(crate) refused: Option<String>,
    /// The input.
    pub(crate) input: Value,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The JSON files of a folder, by name.
fn files(folder: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<(String, Value)> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path.file_name().unwrap().to_string_lossy().into_owned(), value)
        })
        .collect();
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    files
}

/// The seeds of a decoder, its functions' sample events first.
pub(crate) fn seeds(decoder: &Decoder) -> Vec<Seed> {
    let samples = decoder.samples.iter().flat_map(|(function, takes)| {
        let files = files(&root().join("functions").join(function).join("events"));
        files.into_iter().filter(|(name, _)| takes(name)).map(|(name, input)| Seed { name, refused: None, input })
    });
    let kept = files(&root().join("tests/corpus").join(decoder.name)).into_iter().map(|(name, seed)| {
        let field = |field: &str| seed.get(field).unwrap_or_else(|| panic!("{}/{name}: has no {field}", decoder.name));
        assert!(
            field("why").as_str().is_some_and(|why| why.len() > 10),
            "{}/{name}: says not why it is kept",
            decoder.name
        );
        Seed { refused: field("refused").as_str().map(str::to_owned), input: field("input").clone(), name }
    });
    samples.chain(kept).collect()
}

/// What lies in the corpus and belongs to no decoder.
pub(crate) fn strays() -> Vec<String> {
    let known: BTreeSet<&str> = DECODERS.iter().map(|decoder| decoder.name).collect();
    let entries = std::fs::read_dir(root().join("tests/corpus")).unwrap().map(|entry| entry.unwrap());
    let folders =
        entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().to_string_lossy().into_owned());
    folders
        .filter(|name| !known.contains(name.as_str()))
        .map(|name| format!("tests/corpus/{name}: no decoder has this name"))
        .collect()
}
