//! The repository as a map from path to text: read from the disk, or written down in a test.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// All files of a repository by their path from its root, with `/` between the parts. Folders exist by their files.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// This repository, less what `.gitignore` names and git's own folder.
    pub(crate) fn of_this_repository() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let ignored = Ignored::read(&root)?;
        let mut files = BTreeMap::new();
        read_folder(&root, "", &ignored, &mut files)?;
        Ok(Self { files })
    }

    /// A sample: pairs of path and text.
    pub(crate) fn sample(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    /// Every file, in order of path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or a folder of this path exists. A folder's path may end with `/`.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains_key(path) || !self.children(path).is_empty()
    }

    /// The names directly inside a folder (the empty path is the root); folders end with `/`.
    pub(crate) fn children(&self, folder: &str) -> BTreeSet<String> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let inside = self.files.keys().filter_map(|path| path.strip_prefix(&prefix));
        inside
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => format!("{name}/"),
                None => rest.to_owned(),
            })
            .collect()
    }

    /// The Rust files of the crates, as (crate's folder name, path, text): all of `functions/*/src`.
    pub(crate) fn crate_sources(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.files().filter_map(|(path, text)| {
            let (name, rest) = path.strip_prefix("functions/")?.split_once('/')?;
            (rest.starts_with("src/") && path.ends_with(".rs")).then_some((name, path, text))
        })
    }
}

/// Whether a source file holds tests only: `tests.rs`, or anything in a folder called `tests`.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.starts_with("tests/")
}

/// What `.gitignore` names: `/name/` at the root, `name/` anywhere. Other patterns are not in use here.
struct Ignored {
    at_root: BTreeSet<String>,
    anywhere: BTreeSet<String>,
}

impl Ignored {
    fn read(root: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(root.join(".gitignore"))?;
        let mut ignored = Self { at_root: BTreeSet::new(), anywhere: BTreeSet::from([".git".to_owned()]) };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix('/') {
                Some(name) => ignored.at_root.insert(name.trim_end_matches('/').to_owned()),
                None => ignored.anywhere.insert(line.trim_end_matches('/').to_owned()),
            };
        }
        Ok(ignored)
    }

    fn covers(&self, folder: &str, name: &str) -> bool {
        self.anywhere.contains(name) || (folder.is_empty() && self.at_root.contains(name))
    }
}

fn read_folder(
    on_disk: &Path,
    folder: &str,
    ignored: &Ignored,
    files: &mut BTreeMap<String, String>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(on_disk)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if ignored.covers(folder, &name) {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read_folder(&entry.path(), &path, ignored, files)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path())?;
            files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(())
}

#[test]
fn children_are_files_and_folders_of_one_level() {
    let tree = Tree::sample(&[("a/b/c.rs", ""), ("a/d.rs", ""), ("e", "")]);
    assert_eq!(tree.children("a"), BTreeSet::from(["b/".to_owned(), "d.rs".to_owned()]));
    assert_eq!(tree.children(""), BTreeSet::from(["a/".to_owned(), "e".to_owned()]));
    assert!(tree.exists("a/b/") && tree.exists("a/b") && !tree.exists("a/c"));
}

#[test]
fn the_repository_is_read_without_what_git_ignores() {
    let tree = Tree::of_this_repository().unwrap();
    assert!(tree.exists("functions/protocol/Cargo.toml"));
    assert!(!tree.exists("target") && !tree.exists(".git") && !tree.exists(".tools"));
}
