//! The numbered cases (tests/tests/cases): none is missing, and each names a break that is tried against it and nothing else.

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

/// Every number has a test, and every test of a case names breaks of `tests/mutants` that this very test alone must catch: else
/// nobody would see that it does not.
pub(crate) fn numbers_and_breaks(tree: &Tree) -> Vec<String> {
    let cases = all(tree);
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
        let test = full_name(case);
        for named in named {
            let fault = match breaks.get(named) {
                None => "which is no break of tests/mutants".to_owned(),
                Some(check) if check.layer != "cases" => format!("which layer {} tries on others", check.layer),
                Some(check) if !check.runs(&test) => format!("whose check `{}` does not run it", check.check),
                Some(check) if cases.iter().filter(|case| check.runs(&full_name(case))).count() > 1 => {
                    format!("whose check `{}` runs other cases as well", check.check)
                }
                Some(_) => continue,
            };
            findings.push(format!("{path}: {name}: kills `{named}`, {fault}"));
        }
    }
    findings
}

/// How many tests of cases there are.
pub(crate) fn tests(tree: &Tree) -> usize {
    all(tree).len()
}

fn all(tree: &Tree) -> Vec<Case<'_>> {
    let of_cases = tree.files().filter(|(path, _)| path.starts_with(FOLDER));
    of_cases.flat_map(|(path, text)| cases_of(path, text)).collect()
}

/// A test's name as the test runner has it: with its modules.
fn full_name(case: &Case<'_>) -> String {
    let file = case.path.strip_prefix(FOLDER).and_then(|file| file.strip_suffix(".rs")).unwrap_or_default();
    let module = file.strip_suffix("/mod").unwrap_or(file).replace('/', "::");
    format!("{module}::{}", case.name)
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

    /// A break for each of these tests, which its check names.
    fn breaks(tests: &[&str]) -> String {
        let one = |test: &&str| {
            let old = format!("right {test};");
            format!(
                "[[mutant]]\nname = \"wrong_{test}\"\nfile = \"functions/a.rs\"\nold = \"{old}\"\nlayer = \"cases\"\ncheck = \"{test}\"\n"
            )
        };
        tests.iter().map(one).collect()
    }

    fn findings_of(cases: &str, breaks: &str) -> Vec<String> {
        let olds = breaks.lines().filter_map(|line| line.strip_prefix("old = ")).collect::<String>();
        numbers_and_breaks(&Tree::sample(&[
            ("tests/tests/cases/lease/some.rs", cases),
            ("tests/mutants/some.toml", breaks),
            ("functions/a.rs", &olds),
        ]))
    }

    fn test(name: &str, kills: &str) -> String {
        format!("/// Told.\n///\n/// Kills: `{kills}`\n#[test]\nfn {name}() {{}}\n")
    }

    /// All cases but one with a break each, and `more`.
    fn findings(left_out: u32, more: &str) -> Vec<String> {
        let names: Vec<String> =
            (1..=LAST).filter(|number| *number != left_out).map(|number| format!("case_{number:02}_x")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tests: String = names.iter().map(|name| test(name, &format!("wrong_{name}"))).collect();
        findings_of(&format!("{tests}{more}"), &breaks(&names))
    }

    #[test]
    fn all_numbers_with_their_breaks_pass() {
        assert_eq!(findings(0, ""), Vec::<String>::new());
    }

    #[test]
    fn a_missing_number_a_missing_break_and_an_unknown_one_are_found() {
        assert_eq!(findings(17, ""), ["tests/tests/cases/: no test is called case_17_…"]);
        let without = findings(0, "/// Told.\n#[tokio::test]\nasync fn case_03_y() {}\n");
        assert!(without[0].contains("case_03_y: its comment has no line"), "{without:?}");
        let unknown = findings(0, &test("case_03_y", "other"));
        assert!(unknown[0].contains("case_03_y: kills `other`, which is no break"), "{unknown:?}");
        let apart = findings(0, "/// Kills: `wrong_case_03_x`\nconst A: u8 = 1;\nfn case_03_y() {}\n");
        assert!(apart[0].contains("no line"), "a comment of something else: {apart:?}");
    }

    #[test]
    fn a_break_that_is_not_tried_against_the_very_test_is_found() {
        let of_another = findings(0, &test("case_03_y", "wrong_case_04_x"));
        assert!(of_another[0].contains("whose check `case_04_x` does not run it"), "{of_another:?}");
        let both = findings(0, &test("case_03_x_and_more", "wrong_case_03_x"));
        assert!(both[0].contains("whose check `case_03_x` runs other cases as well"), "{both:?}");
        let elsewhere = findings_of(&test("case_03_x", "wrong_a"), &breaks(&["a"]).replace("cases", "unit"));
        let told = elsewhere.last().unwrap();
        assert!(told.contains("kills `wrong_a`, which layer unit tries on others"), "{elsewhere:?}");
    }
}
