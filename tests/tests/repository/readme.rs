//! README's code map against the disk.
//!
//! The map is the block that starts with a line ` ```text ` followed by a line that starts with `functions/`. In it,
//! - a line begins with a name, indented by its depth; a name that ends with `/` is a folder, any other a file;
//! - several names of one depth may share a line, with one space between; then nothing may stand below that line;
//! - whatever follows two spaces is description, and so is a line indented by twelve columns or more;
//! - the drawing characters of `tree` count as spaces.
//!
//! Every name must exist. Every crate in `functions/`, every state machine and every first-level entry of `tests/` must be
//! named.

use std::collections::BTreeSet;

use crate::tree::Tree;

/// Columns from which an indented line is description.
const DESCRIPTION_COLUMN: usize = 12;

/// The code map names what exists, and all that matters.
pub(crate) fn code_map(tree: &Tree) -> Vec<String> {
    let Some(text) = tree.text("README.md") else {
        return vec!["README.md: is missing".to_owned()];
    };
    let Some(block) = map_block(text) else {
        return vec![
            "README.md: has no code map: a ```text block whose first line starts with `functions/`".to_owned(),
        ];
    };
    let (named, mut findings) = read_map(&block);
    let absent = named.iter().filter(|path| !tree.exists(path));
    findings.extend(absent.map(|path| format!("README.md: the code map names {path}, which does not exist")));
    let unnamed = worth_naming(tree).into_iter().filter(|path| !named.contains(path.trim_end_matches('/')));
    findings.extend(unnamed.map(|path| format!("README.md: the code map does not name {path}")));
    findings
}

/// The lines of the map, without the fences.
fn map_block(text: &str) -> Option<Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.windows(2).position(|pair| pair[0].trim() == "```text" && pair[1].starts_with("functions/"))?;
    Some(lines[start + 1..].iter().copied().take_while(|line| line.trim() != "```").collect())
}

/// The paths that the map names, without a closing `/`, and what is wrong with its form.
fn read_map(block: &[&str]) -> (BTreeSet<String>, Vec<String>) {
    let mut named = BTreeSet::new();
    let mut findings = Vec::new();
    // The folders that the next line may stand in: (indentation, path); no path where a line named several.
    let mut open: Vec<(usize, Option<String>)> = Vec::new();
    for line in block {
        let line: String = line.chars().map(|c| if "│├└─".contains(c) { ' ' } else { c }).collect();
        let indentation = line.len() - line.trim_start().len();
        if line.trim().is_empty() || indentation >= DESCRIPTION_COLUMN {
            continue;
        }
        while open.last().is_some_and(|(depth, _)| *depth >= indentation) {
            open.pop();
        }
        let parent = match open.last() {
            Some((_, Some(parent))) => format!("{parent}/"),
            Some((_, None)) => {
                findings.push(format!("README.md: {:?} stands below a line of several names", line.trim()));
                continue;
            }
            None => String::new(),
        };
        let names: Vec<&str> = line.trim_start().split("  ").next().unwrap_or_default().split_whitespace().collect();
        named.extend(names.iter().map(|name| format!("{parent}{}", name.trim_end_matches('/'))));
        let only_folder = (names.len() == 1).then(|| format!("{parent}{}", names[0].trim_end_matches('/')));
        open.push((indentation, only_folder));
    }
    (named, findings)
}

fn worth_naming(tree: &Tree) -> Vec<String> {
    let crates = tree.children("functions").into_iter().map(|name| format!("functions/{name}"));
    let machines = tree.children("statemachines").into_iter().filter(|name| name.ends_with(".asl.json"));
    let machines = machines.map(|name| format!("statemachines/{name}"));
    let tests = tree.children("tests").into_iter().map(|name| format!("tests/{name}"));
    crates.chain(machines).chain(tests).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
functions/
  ingest/ drainer/    handlers
  protocol/           decisions only
    src/lib.rs        the specification
                      in prose
statemachines/
  drain.asl.json      one page after the other
tests/
├── run               every check
└── Cargo.toml
";

    const FILES: &[(&str, &str)] = &[
        ("functions/ingest/Cargo.toml", ""),
        ("functions/drainer/Cargo.toml", ""),
        ("functions/protocol/src/lib.rs", ""),
        ("statemachines/drain.asl.json", ""),
        ("tests/run", ""),
        ("tests/Cargo.toml", ""),
    ];

    fn findings(map: &str, extra: &[(&str, &str)]) -> Vec<String> {
        let readme = format!("# Title\n\n```text\nnot the map\n```\n\n```text\n{map}```\nmore/\n");
        let readme = [("README.md", readme.as_str())];
        code_map(&Tree::sample(&[FILES, &readme, extra].concat()))
    }

    #[test]
    fn a_true_map_passes() {
        assert_eq!(findings(MAP, &[]), Vec::<String>::new());
    }

    #[test]
    fn what_the_map_invents_or_forgets_is_found() {
        let invented = MAP.replace("run ", "ran ");
        assert_eq!(
            findings(&invented, &[]),
            [
                "README.md: the code map names tests/ran, which does not exist",
                "README.md: the code map does not name tests/run"
            ]
        );
        let wrong_place = MAP.replace("    src/lib.rs", "  src/lib.rs");
        assert!(findings(&wrong_place, &[])[0].contains("functions/src/lib.rs"));
        let new_machine = [("statemachines/redrive.asl.json", "")];
        assert_eq!(
            findings(MAP, &new_machine),
            ["README.md: the code map does not name statemachines/redrive.asl.json"]
        );
        let new_crate = [("functions/lease/Cargo.toml", "")];
        assert_eq!(findings(MAP, &new_crate), ["README.md: the code map does not name functions/lease/"]);
    }

    #[test]
    fn a_missing_readme_a_missing_map_and_a_child_of_several_are_found() {
        assert_eq!(code_map(&Tree::sample(FILES)), ["README.md: is missing"]);
        assert!(code_map(&Tree::sample(&[("README.md", "# Title\n")]))[0].contains("no code map"));
        let child_of_two = MAP.replace("  protocol/ ", "    protocol/ ");
        assert!(findings(&child_of_two, &[])[0].contains("below a line of several names"));
    }
}
