//! Two histories side by side, for who has to find out what changed.

use std::fmt::Write as _;

/// Lines that are shown around a difference.
const AROUND: usize = 3;

/// One line of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared<'h> {
    Same(&'h str),
    Gone(&'h str),
    New(&'h str),
}

/// What differs, with the lines around it: `-` stands in the first history only, `+` in the second only.
pub(crate) fn between(first: &[String], second: &[String]) -> String {
    let compared = compare(first, second);
    let differs: Vec<usize> =
        (0..compared.len()).filter(|index| !matches!(compared[*index], Compared::Same(_))).collect();
    let shown = |index: usize| differs.iter().any(|at| at.abs_diff(index) <= AROUND);
    let mut text = String::new();
    let mut cut = false;
    for (index, line) in compared.iter().enumerate() {
        if !shown(index) {
            if !cut {
                text.push_str("  …\n");
            }
            cut = true;
            continue;
        }
        cut = false;
        let (sign, line) = match line {
            Compared::Same(line) => (' ', line),
            Compared::Gone(line) => ('-', line),
            Compared::New(line) => ('+', line),
        };
        let _ = writeln!(text, "{sign} {line}");
    }
    text
}

/// The longest common subsequence, and what stands beside it.
fn compare<'h>(first: &'h [String], second: &'h [String]) -> Vec<Compared<'h>> {
    // longest[i][j]: of first[i..] and second[j..].
    let mut longest = vec![vec![0_usize; second.len() + 1]; first.len() + 1];
    for i in (0..first.len()).rev() {
        for j in (0..second.len()).rev() {
            longest[i][j] = if first[i] == second[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut compared) = (0, 0, Vec::new());
    while i < first.len() || j < second.len() {
        if i < first.len() && j < second.len() && first[i] == second[j] {
            compared.push(Compared::Same(&first[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == second.len() || (i < first.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            compared.push(Compared::Gone(&first[i]));
            i += 1;
        } else {
            compared.push(Compared::New(&second[j]));
            j += 1;
        }
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_changed_line_is_shown_with_its_neighbours() {
        let shown = between(&lines("a b c d e f g h i"), &lines("a b c d X f g h i"));
        assert_eq!(shown, "  …\n  b\n  c\n  d\n- e\n+ X\n  f\n  g\n  h\n  …\n");
    }

    #[test]
    fn lines_that_are_gone_or_new_are_told_apart() {
        assert_eq!(between(&lines("a b c"), &lines("a c")), "  a\n- b\n  c\n");
        assert_eq!(between(&lines("a c"), &lines("a b c")), "  a\n+ b\n  c\n");
        assert_eq!(between(&[], &lines("a")), "+ a\n");
    }
}
