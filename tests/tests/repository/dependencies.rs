//! Who may depend on whom. The table below is the dependency rule; it speaks of direct dependencies.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::tree::Tree;

/// For each crate, by its folder: our own crates that it may name.
const ALLOWED: &[(&str, &[&str])] = &[
    ("functions/protocol", &[]),
    ("functions/storage", &["protocol"]),
    ("functions/runtime", &["protocol", "storage"]),
    ("functions/ingest", &["protocol", "storage", "runtime"]),
    ("functions/lease", &["protocol", "storage", "runtime"]),
    ("functions/drainer", &["protocol", "storage", "runtime"]),
    ("functions/local", &["protocol", "storage", "runtime", "ingest", "lease", "drainer"]),
    ("functions/fencepost", &["protocol", "storage", "runtime", "local"]),
    ("tests", &["protocol", "storage", "runtime", "ingest", "lease", "drainer", "local"]),
];

/// All that the pure crate may link: encoding and errors, nothing that could read a clock or wait.
/// JSON is among them: an event is parsed where its fields are judged, and a parser is as pure as a decision.
const PROTOCOL_MAY_LINK: &[&str] = &["serde", "serde_json", "sha2", "base64", "thiserror"];
/// And what its tests may use on top.
const PROTOCOL_TESTS_MAY_LINK: &[&str] = &["proptest", "stateright"];

/// The dependency rule: our own crates by the table, AWS clients in storage alone, the pure crate's short list.
pub(crate) fn edges(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for folder in crate_folders(tree) {
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == folder) else {
            findings
                .push(format!("{folder}: a crate that the dependency rule does not know; add its edges to the table"));
            continue;
        };
        let manifest = match manifest(tree, &folder) {
            Ok(manifest) => manifest,
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        for dependency in dependencies(&manifest) {
            findings.extend(fault_of(&folder, allowed, &dependency));
        }
    }
    findings
}

/// Versions and features are stated in the root manifest only, and every crate takes the shared lints.
pub(crate) fn shared_settings(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for folder in crate_folders(tree) {
        let Ok(manifest) = manifest(tree, &folder) else { continue };
        let own_version = dependencies(&manifest).into_iter().filter(|dependency| !dependency.is_shared);
        findings.extend(own_version.map(|dependency| {
            let name = dependency.name;
            format!("{folder}/Cargo.toml: {name} has a version of its own; write `{name}.workspace = true`")
        }));
        let shared = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool);
        if shared != Some(true) {
            findings.push(format!("{folder}/Cargo.toml: the shared lints are missing; add `[lints] workspace = true`"));
        }
    }
    findings
}

struct Dependency {
    name: String,
    for_tests: bool,
    /// From the root manifest, or the crate itself.
    is_shared: bool,
}

fn fault_of(folder: &str, allowed: &[&str], dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let kind = if dependency.for_tests { "tests depend" } else { "depends" };
    if name == "fencepost" || name.starts_with("fencepost-") {
        let own = name.strip_prefix("fencepost-").unwrap_or(name);
        // Its own tests may build a crate once more, with features that they alone switch on.
        if dependency.for_tests && folder.strip_prefix("functions/") == Some(own) {
            return None;
        }
        return (!allowed.contains(&own))
            .then(|| format!("{folder}: {kind} on {name}; allowed are: {}", listed(allowed.iter().copied())));
    }
    if folder == "functions/protocol" {
        let may =
            PROTOCOL_MAY_LINK.contains(&name) || (dependency.for_tests && PROTOCOL_TESTS_MAY_LINK.contains(&name));
        return (!may).then(|| format!("{folder}: {kind} on {name}; the pure crate links only its short list"));
    }
    let client =
        name.starts_with("aws-") && folder != "functions/storage" && folder != "tests" && !dependency.for_tests;
    client.then(|| format!("{folder}: {kind} on {name}; only functions/storage links AWS crates"))
}

/// The folders of all member crates: those in `functions/`, and `tests`.
fn crate_folders(tree: &Tree) -> BTreeSet<String> {
    let functions = tree.children("functions");
    let mut folders: BTreeSet<String> =
        functions.iter().filter_map(|name| name.strip_suffix('/')).map(|name| format!("functions/{name}")).collect();
    if tree.exists("tests") {
        folders.insert("tests".to_owned());
    }
    folders
}

fn manifest(tree: &Tree, folder: &str) -> Result<Table, String> {
    let text = tree.text(&format!("{folder}/Cargo.toml")).ok_or(format!("{folder}: has no Cargo.toml"))?;
    text.parse().map_err(|error| format!("{folder}/Cargo.toml: {error}"))
}

/// Every dependency of every kind, those for one platform included.
fn dependencies(manifest: &Table) -> Vec<Dependency> {
    let mut found = Vec::new();
    collect(manifest, &mut found);
    for platform in manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values) {
        if let Some(sections) = platform.as_table() {
            collect(sections, &mut found);
        }
    }
    found
}

fn collect(sections: &Table, found: &mut Vec<Dependency>) {
    for (section, for_tests) in [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)] {
        for (key, value) in sections.get(section).and_then(Value::as_table).into_iter().flatten() {
            let renamed = value.get("package").and_then(Value::as_str);
            let from_root = value.get("workspace").and_then(Value::as_bool) == Some(true);
            let is_itself = value.get("path").and_then(Value::as_str) == Some(".");
            let name = renamed.unwrap_or(key).to_owned();
            found.push(Dependency { name, for_tests, is_shared: from_root || is_itself });
        }
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: fn(&Tree) -> Vec<String>, path: &str, manifest: &str) -> String {
        rule(&Tree::sample(&[(path, manifest)])).join("\n")
    }

    #[test]
    fn an_edge_against_the_rule_is_found_wherever_it_stands() {
        for section in ["dependencies", "dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            let manifest = format!("[{section}]\nfencepost-runtime.workspace = true\n");
            let found = finding(edges, "functions/storage/Cargo.toml", &manifest);
            assert!(found.contains("fencepost-runtime; allowed are: protocol"), "[{section}]: {found:?}");
        }
        let renamed = "[dependencies]\nclock = { package = \"fencepost-runtime\", path = \"../runtime\" }\n";
        assert!(finding(edges, "functions/storage/Cargo.toml", renamed).contains("fencepost-runtime"));
        let itself = "[dev-dependencies]\nfencepost-storage = { path = \".\", features = [\"faults\"] }\n";
        assert_eq!(finding(edges, "functions/storage/Cargo.toml", itself), "");
        let allowed = "[dependencies]\nfencepost-protocol.workspace = true\n";
        assert_eq!(finding(edges, "functions/storage/Cargo.toml", allowed), "");
    }

    #[test]
    fn aws_crates_belong_to_storage_and_to_tests() {
        let manifest = "[dependencies]\naws-sdk-sqs.workspace = true\n";
        assert!(finding(edges, "functions/drainer/Cargo.toml", manifest).contains("only functions/storage"));
        assert_eq!(finding(edges, "functions/storage/Cargo.toml", manifest), "");
        let for_tests = "[dev-dependencies]\naws-sdk-sqs.workspace = true\n";
        assert_eq!(finding(edges, "functions/local/Cargo.toml", for_tests), "");
    }

    #[test]
    fn the_pure_crate_has_a_short_list() {
        let links = |name: &str, section: &str| {
            finding(edges, "functions/protocol/Cargo.toml", &format!("[{section}]\n{name}.workspace = true\n"))
        };
        assert!(links("tokio", "dependencies").contains("short list"));
        assert!(links("tokio", "dev-dependencies").contains("short list"));
        assert!(links("proptest", "dependencies").contains("short list"));
        assert_eq!(links("serde", "dependencies"), "");
        assert_eq!(links("proptest", "dev-dependencies"), "");
    }

    #[test]
    fn an_unknown_crate_and_a_missing_manifest_are_findings() {
        assert!(finding(edges, "functions/extra/Cargo.toml", "").contains("does not know"));
        assert!(finding(edges, "functions/storage/src/lib.rs", "").contains("has no Cargo.toml"));
        assert!(finding(edges, "functions/storage/Cargo.toml", "[broken").contains("Cargo.toml:"));
    }

    #[test]
    fn own_versions_and_own_lints_are_found() {
        let path = "functions/storage/Cargo.toml";
        let lints = "[lints]\nworkspace = true\n";
        assert!(finding(shared_settings, path, "[dependencies]\nserde = \"1\"\n").contains("`serde.workspace = true`"));
        assert!(finding(shared_settings, path, "[lints.rust]\nunsafe_code = \"allow\"\n").contains("shared lints"));
        assert_eq!(finding(shared_settings, path, &format!("{lints}[dependencies]\nserde.workspace = true\n")), "");
    }
}
