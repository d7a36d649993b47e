//! Figures of the README's verification table that can be counted from the files: a case, a race or a break that comes or goes
//! must not leave an old number there. Figures that only a run can tell are not judged here.

use crate::cases;
use crate::mutants;
use crate::tree::Tree;

const README: &str = "README.md";

/// The row of each layer states how many there are.
pub(crate) fn counted(tree: &Tree) -> Vec<String> {
    let races = tree.children("tests/transcripts").into_iter().filter(|name| name.ends_with(".txt")).count();
    let (breaks, _) = mutants::names(tree);
    let seeds = tree.files().filter(|(path, _)| path.starts_with("tests/corpus/") && path.ends_with(".json")).count();
    let ends = tree.text("functions/protocol/tests/model/ends.rs").unwrap_or_default();
    let ends =
        ends.lines().skip_while(|line| !line.starts_with("ends! {")).filter(|line| line.contains(" => \"")).count();
    [
        ("model", format!("{ends} kinds of ends")),
        ("fuzzing", format!("{seeds} seeds")),
        ("cases", format!("{} tests", cases::tests(tree))),
        ("transcripts", format!("{races} races")),
        ("mutants", format!("{} breaks", breaks.len())),
    ]
    .into_iter()
    .filter_map(|(layer, figure)| unstated(tree, layer, &figure))
    .collect()
}

fn unstated(tree: &Tree, layer: &str, figure: &str) -> Option<String> {
    let start = format!("| {layer} |");
    let text = tree.text(README).unwrap_or_default();
    let Some(row) = text.lines().find(|line| line.starts_with(&start)) else {
        return Some(format!("{README}: no row of the verification table starts with {start:?}"));
    };
    let stated = row.match_indices(figure).any(|(at, _)| !row[..at].ends_with(|before: char| before.is_ascii_digit()));
    (!stated).then(|| format!("{README}: the row of {layer} does not say {figure:?}, which the files show"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &str = "#[test]\nfn case_01_x() {}\n#[tokio::test]\nasync fn case_02_x() {}\n";
    const LIST: &str = "[[mutant]]\nname = \"a\"\n";

    fn findings(readme: &str) -> Vec<String> {
        counted(&Tree::sample(&[
            ("tests/tests/cases/lease.rs", CASES),
            ("tests/transcripts/one.txt", ""),
            ("tests/corpus/lease/one.json", "{}"),
            ("functions/protocol/tests/model/ends.rs", "$end => \"words\"\nends! {\n    One => \"one\",\n}\n"),
            ("tests/mutants/list.toml", LIST),
            (README, readme),
        ]))
    }

    #[test]
    fn true_figures_pass() {
        let model = "| model | 1 kinds of ends |\n| fuzzing | 1 seeds |\n";
        let rest = "| cases | 2 tests |\n| transcripts | 1 races |\n| mutants | all 1 breaks |\n";
        assert_eq!(findings(&[model, rest].concat()), [""; 0]);
    }

    #[test]
    fn an_old_figure_and_a_missing_row_are_found() {
        assert_eq!(
            findings(
                "| model | 1 kinds of ends |\n| fuzzing | 1 seeds |\n| cases | 12 tests |\n| mutants | 1 breaks |\n"
            ),
            [
                "README.md: the row of cases does not say \"2 tests\", which the files show",
                "README.md: no row of the verification table starts with \"| transcripts |\"",
            ]
        );
    }
}
