//! What a visitor sees at the top level, and how long a file may be.

use crate::tree::Tree;

/// Always there.
const REQUIRED: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "functions/",
    "rust-toolchain.toml",
    "statemachines/",
    "tests/",
];
/// The deployment: both or neither.
const DEPLOYMENT: &[&str] = &["infra/", "samconfig.toml"];

/// Lines a file may have. Long before that it should have been two.
const LINES_MAX: usize = 500;
/// What is written by hand, as its name ends. Sample events and state machines are as long as they must be.
const WRITTEN_BY_HAND: &[&str] = &[".rs", ".py", ".sh", "/run"];

/// The top level shows the required names, the deployment, dot files, and nothing else.
pub(crate) fn top_level(tree: &Tree) -> Vec<String> {
    let shown = tree.children("");
    let known = |name: &str| REQUIRED.contains(&name) || DEPLOYMENT.contains(&name) || name.starts_with('.');
    let mut findings: Vec<String> = shown
        .iter()
        .filter(|name| !known(name))
        .map(|name| format!("{name}: does not belong at the top level; move it into a room or make it a dot file"))
        .collect();
    let missing = |name: &&&str| !shown.contains(**name);
    findings.extend(REQUIRED.iter().filter(missing).map(|name| format!("{name}: is missing at the top level")));
    let absent: Vec<&str> = DEPLOYMENT.iter().filter(missing).copied().collect();
    if absent.len() == 1 {
        findings.push(format!("{}: is missing; {} stand together", absent[0], DEPLOYMENT.join(" and ")));
    }
    findings
}

/// No file in `functions/` or `tests/` is longer than a reader's patience.
pub(crate) fn file_length(tree: &Tree) -> Vec<String> {
    let in_rooms = tree.files().filter(|(path, _)| path.starts_with("functions/") || path.starts_with("tests/"));
    let by_hand = in_rooms.filter(|(path, _)| WRITTEN_BY_HAND.iter().any(|end| path.ends_with(end)));
    by_hand
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| format!("{path}: has {lines} lines, {LINES_MAX} are allowed; split it by subject"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[
        (".gitignore", ""),
        ("Cargo.lock", ""),
        ("Cargo.toml", ""),
        ("LICENSE", ""),
        ("README.md", ""),
        ("functions/ingest/Cargo.toml", ""),
        ("rust-toolchain.toml", ""),
        ("statemachines/drain.asl.json", ""),
        ("tests/run", ""),
    ];

    fn with(extra: &[(&str, &str)]) -> Tree {
        Tree::sample(&[FILES, extra].concat())
    }

    #[test]
    fn the_expected_top_level_passes_with_and_without_the_deployment() {
        assert!(top_level(&with(&[])).is_empty());
        assert!(top_level(&with(&[("infra/template.yaml", ""), ("samconfig.toml", "")])).is_empty());
    }

    #[test]
    fn an_extra_name_a_missing_name_and_half_a_deployment_are_found() {
        assert!(top_level(&with(&[("notes.md", "")]))[0].starts_with("notes.md: does not belong"));
        assert!(top_level(&with(&[("docs/a.md", "")]))[0].starts_with("docs/: does not belong"));
        assert!(top_level(&with(&[("infra/template.yaml", "")]))[0].starts_with("samconfig.toml: is missing"));
        let without_readme: Vec<_> = FILES.iter().copied().filter(|(path, _)| *path != "README.md").collect();
        assert_eq!(top_level(&Tree::sample(&without_readme)), ["README.md: is missing at the top level"]);
    }

    #[test]
    fn a_long_file_is_found_and_a_long_sample_event_is_not() {
        let long = "x\n".repeat(LINES_MAX + 1);
        let full = "x\n".repeat(LINES_MAX);
        assert_eq!(file_length(&with(&[("functions/ingest/src/lib.rs", &long)])).len(), 1);
        assert_eq!(file_length(&with(&[("tests/outside/run.py", &long)])).len(), 1);
        assert_eq!(file_length(&with(&[("functions/ingest/src/lib.rs", &full)])).len(), 0);
        assert_eq!(file_length(&with(&[("functions/ingest/events/batch.json", &long)])).len(), 0);
    }
}
