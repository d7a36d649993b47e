//! The lists of breaks in `tests/mutants`: each break still applies. One that does not would be told only by the run that
//! tries them all, which takes too long for every change.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::tree::Tree;

const FOLDER: &str = "tests/mutants";

/// The names of all breaks, and what is wrong with the lists.
pub(crate) fn names(tree: &Tree) -> (BTreeSet<String>, Vec<String>) {
    let mut names = BTreeSet::new();
    let mut findings = Vec::new();
    for list in tree.children(FOLDER).into_iter().filter(|name| name.ends_with(".toml")) {
        let text = tree.text(&format!("{FOLDER}/{list}")).unwrap_or_default();
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                findings.push(format!("{FOLDER}/{list}: is not TOML: {error}"));
                continue;
            }
        };
        let entries = table.get("mutant").and_then(Value::as_array).cloned().unwrap_or_default();
        for entry in &entries {
            let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let name = field("name");
            if name.is_empty() || !names.insert(name.to_owned()) {
                findings.push(format!("{FOLDER}/{list}: a break has no name, or `{name}` stands there twice"));
            }
            let count = tree.text(field("file")).map_or(0, |text| text.matches(field("old")).count());
            if field("old").is_empty() || count != 1 {
                let file = field("file");
                findings.push(format!(
                    "{FOLDER}/{list}: {name}: `old` stands {count} times in {file}; it must stand there once"
                ));
            }
        }
    }
    if names.is_empty() && findings.is_empty() {
        findings.push(format!("{FOLDER}: holds no list of breaks"));
    }
    (names, findings)
}

/// Every break of every list applies.
pub(crate) fn lists(tree: &Tree) -> Vec<String> {
    names(tree).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(list: &str) -> Vec<String> {
        lists(&Tree::sample(&[("tests/mutants/some.toml", list), ("functions/a.rs", "one two two")]))
    }

    fn entry(name: &str, old: &str) -> String {
        format!("[[mutant]]\nname = \"{name}\"\nfile = \"functions/a.rs\"\nold = \"{old}\"\n")
    }

    #[test]
    fn a_break_that_applies_once_passes() {
        assert_eq!(findings(&entry("a", "one")), Vec::<String>::new());
    }

    #[test]
    fn breaks_that_do_not_apply_or_share_a_name_are_found() {
        assert!(findings(&entry("a", "two"))[0].contains("stands 2 times"));
        assert!(findings(&entry("a", "three"))[0].contains("stands 0 times"));
        assert!(findings(&format!("{}{}", entry("a", "one"), entry("a", "one")))[0].contains("twice"));
        assert!(findings("[[mutant")[0].contains("is not TOML"));
        assert!(findings("")[0].contains("no list of breaks"));
    }
}
