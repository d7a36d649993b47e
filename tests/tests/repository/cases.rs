//! The numbered cases (tests/tests/cases): none is missing, and each names a break that it catches.

use std::collections::BTreeSet;

use crate::mutants;
use crate::tree::Tree;

const FOLDER: &str = "tests/tests/cases/";
/// The cases are numbered from 1 to this.
const LAST: u32 = 62;

/// A test of a case, with the comment above it.
struct Case<'a> {
    path: &'a str,
    name: &'a str,
    comment: Vec<&'a str>,
}

/// Every number has a test, and every test of a case names breaks that stand in `tests/mutants`.
pub(crate) fn numbers_and_breaks(tree: &Tree) -> Vec<String> {
    let cases: Vec<Case<'_>> = tree
        .files()
        .filter(|(path, _)| path.starts_with(FOLDER))
        .flat_map(|(path, text)| cases_of(path, text))
        .collect();
    let numbers: BTreeSet<u32> = cases.iter().filter_map(|case| number_of(case.name)).collect();
    let (breaks, _) = mutants::names(tree);
    let missing = (1..=LAST).filter(|number| !numbers.contains(number));
    let mut findings: Vec<String> =
        missing.map(|number| format!("{FOLDER}: no test is called case_{number:02}_…")).collect();
    for case in &cases {
        let Case { path, name, comment } = case;
        let named: Vec<&str> = comment
            .iter()
            .filter_map(|line| line.strip_prefix("Kills: "))
            .flat_map(|line| line.split('`').skip(1).step_by(2))
            .collect();
        if named.is_empty() {
            findings.push(format!("{path}: {name}: its comment has no line \"Kills: `…`\""));
        }
        let unknown = named.into_iter().filter(|name| !breaks.contains(*name));
        findings.extend(
            unknown.map(|unknown| format!("{path}: {name}: kills `{unknown}`, which is no break of tests/mutants")),
        );
    }
    findings
}

fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("case_")?.split('_').next()?.parse().ok()
}

fn cases_of<'a>(path: &'a str, text: &'a str) -> Vec<Case<'a>> {
    let mut comment = Vec::new();
    let mut cases = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(said) = line.strip_prefix("///") {
            comment.push(said.trim());
        } else if let Some(name) = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn case_") {
            let end = name.find('(').unwrap_or(name.len());
            let start = line.find("case_").unwrap_or_default();
            cases.push(Case {
                path,
                name: &line[start..start + "case_".len() + end],
                comment: std::mem::take(&mut comment),
            });
        } else if !line.starts_with("#[") {
            comment.clear();
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAKS: &str = "[[mutant]]\nname = \"wrong\"\nfile = \"functions/a.rs\"\nold = \"right\"\n";

    fn findings(cases: &str) -> Vec<String> {
        numbers_and_breaks(&Tree::sample(&[
            ("tests/tests/cases/lease/some.rs", cases),
            ("tests/mutants/some.toml", BREAKS),
            ("functions/a.rs", "right"),
        ]))
    }

    fn all_but(left_out: u32) -> String {
        let numbers = (1..=LAST).filter(|number| *number != left_out);
        numbers
            .map(|number| format!("/// Told.\n///\n/// Kills: `wrong`\n#[test]\nfn case_{number:02}_x() {{}}\n"))
            .collect()
    }

    #[test]
    fn all_numbers_with_their_breaks_pass() {
        assert_eq!(findings(&all_but(0)), Vec::<String>::new());
    }

    #[test]
    fn a_missing_number_a_missing_break_and_an_unknown_one_are_found() {
        assert_eq!(findings(&all_but(17)), ["tests/tests/cases/: no test is called case_17_…"]);
        let all = all_but(0);
        let without = format!("{all}/// Told.\n#[tokio::test]\nasync fn case_03_y() {{}}\n");
        assert!(findings(&without)[0].contains("case_03_y: its comment has no line"), "{:?}", findings(&without));
        let unknown = format!("{all}/// Kills: `wrong`, `other`\nfn case_03_y() {{}}\n");
        assert!(findings(&unknown)[0].contains("case_03_y: kills `other`"), "{:?}", findings(&unknown));
        let apart = format!("{all}/// Kills: `wrong`\nconst A: u8 = 1;\nfn case_03_y() {{}}\n");
        assert!(findings(&apart)[0].contains("no line"), "a comment of something else");
    }
}
