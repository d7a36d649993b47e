//! The lists of breaks in `tests/mutants`: each break still applies. One that does not would be told only by the run that
//! tries them all, which takes too long for every change.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::tree::Tree;

const FOLDER: &str = "tests/mutants";

/// What has to notice a break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Which kind of check it is, for example `cases`.
    pub(crate) layer: String,
    /// What the layer is given: for `cases` parts of a test's name, apart by spaces.
    pub(crate) check: String,
}

impl Check {
    /// Does it run the test of this name, module path included?
    pub(crate) fn runs(&self, test: &str) -> bool {
        self.check.split_whitespace().any(|part| test.contains(part))
    }
}

/// All breaks with their checks, and what is wrong with the lists.
pub(crate) fn names(tree: &Tree) -> (BTreeMap<String, Check>, Vec<String>) {
    let mut names = BTreeMap::new();
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
            let check = Check { layer: field("layer").to_owned(), check: field("check").to_owned() };
            if name.is_empty() || names.insert(name.to_owned(), check).is_some() {
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
