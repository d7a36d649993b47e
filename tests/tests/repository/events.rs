//! The sample events of the functions: valid JSON, and each with the page that its shape was taken from.

use crate::tree::Tree;

/// The functions that are called with events.
const FUNCTIONS: &[&str] = &["ingest", "lease", "drainer"];

/// Every sample is JSON and stands in the folder's README, and the README names no sample that is not there.
pub(crate) fn samples(tree: &Tree) -> Vec<String> {
    FUNCTIONS.iter().flat_map(|function| samples_of(tree, &format!("functions/{function}/events"))).collect()
}

fn samples_of(tree: &Tree, folder: &str) -> Vec<String> {
    let names: Vec<String> = tree.children(folder).into_iter().filter(|name| name.ends_with(".json")).collect();
    if names.is_empty() {
        return vec![format!("{folder}: holds no sample event")];
    }
    let readme = tree.text(&format!("{folder}/README.md")).unwrap_or_default();
    let mut findings = Vec::new();
    for name in &names {
        let text = tree.text(&format!("{folder}/{name}")).unwrap_or_default();
        if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
            findings.push(format!("{folder}/{name}: is not JSON: {error}"));
        }
        if !readme.contains(&format!("`{name}`")) {
            findings.push(format!("{folder}/README.md: does not name `{name}` and its source"));
        }
    }
    let quoted = readme.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".json"));
    let absent = quoted.filter(|word| !names.iter().any(|name| name == word));
    findings.extend(absent.map(|name| format!("{folder}/README.md: names `{name}`, which does not exist")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(readme: &str, name: &str, text: &str) -> Vec<String> {
        let folder = "functions/ingest/events";
        let tree = Tree::sample(&[(&format!("{folder}/README.md"), readme), (&format!("{folder}/{name}"), text)]);
        samples_of(&tree, folder)
    }

    #[test]
    fn a_sample_that_is_valid_and_named_passes() {
        assert!(findings("`rule.json`: from the manual", "rule.json", "{}").is_empty());
    }

    #[test]
    fn a_broken_an_unnamed_and_an_absent_sample_are_found() {
        assert!(findings("`rule.json`", "rule.json", "{,}")[0].contains("is not JSON"));
        assert!(findings("", "rule.json", "{}")[0].contains("does not name `rule.json`"));
        assert!(findings("`rule.json` `old.json`", "rule.json", "{}")[0].contains("`old.json`, which does not exist"));
        assert_eq!(samples(&Tree::sample(&[])).len(), FUNCTIONS.len());
    }
}
