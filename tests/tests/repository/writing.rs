//! How things are written: module docs, reasons for exceptions, words that do not belong into the repository.

use crate::source::{Token, attributes};
use crate::tree::{Tree, is_test_file};

/// A module doc shorter than this says nothing.
const MODULE_DOC_CHARACTERS_MIN: usize = 10;

/// Words that no file may hold, with the reason. In two pieces, so that this list does not find itself.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("to", "do!", "unfinished code"),
    ("unimple", "mented!", "unfinished code"),
    ("FIX", "ME", "unfinished work; file an issue"),
    ("/wo", "rk/", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("index.crates", ".io", "a registry's host; name the package only"),
    ("registry.npmjs", ".org", "a registry's host; name the package only"),
    ("pypi", ".org", "a registry's host; name the package only"),
    ("arti", "factory", "a registry's host; name the package only"),
];

/// Every file that is no test starts by saying what it is for.
pub(crate) fn module_docs(tree: &Tree) -> Vec<String> {
    let undocumented = tree.crate_sources().filter(|(_, path, text)| {
        let doc = text.lines().next().and_then(|line| line.strip_prefix("//!")).map(str::trim);
        !is_test_file(path) && doc.is_none_or(|doc| doc.chars().count() < MODULE_DOC_CHARACTERS_MIN)
    });
    undocumented
        .map(|(_, path, _)| format!("{path}: its first line is no module doc (`//! …`) that says anything"))
        .collect()
}

/// Every lint that is switched off says why.
pub(crate) fn allowances(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        match attributes(text) {
            Ok(found) => {
                let without = found.iter().filter(|(_, attribute)| switches_off_without_reason(attribute));
                findings
                    .extend(without.map(|(line, _)| format!("{path}:{line}: add `reason = \"…\"` to the exception")));
            }
            Err(error) => findings.push(format!("{path}: {error}")),
        }
    }
    findings
}

/// No file holds a forbidden word.
pub(crate) fn forbidden_words(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        for (first, second, why) in FORBIDDEN {
            let word = format!("{first}{second}");
            let lines = text.lines().enumerate().filter(|(_, line)| line.contains(&word));
            findings.extend(lines.map(|(line, _)| format!("{path}:{}: `{word}`: {why}", line + 1)));
        }
    }
    findings
}

/// `allow(…)` or `expect(…)` at the head of an attribute, or inside `cfg_attr(…)`.
fn switches_off_without_reason(attribute: &[Token]) -> bool {
    let head = attribute.first().map(|token| token.text.as_str());
    if !matches!(head, Some("allow" | "expect" | "cfg_attr")) {
        return false;
    }
    let is_exception = |pair: &[Token]| matches!(pair[0].text.as_str(), "allow" | "expect") && pair[1].text == "(";
    attribute.windows(2).any(is_exception) && !attribute.iter().any(|token| token.text == "reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rule: fn(&Tree) -> Vec<String>, path: &str, text: &str) -> Vec<String> {
        rule(&Tree::sample(&[(path, text)]))
    }

    #[test]
    fn a_file_without_a_module_doc_is_found() {
        let path = "functions/ingest/src/decode.rs";
        for text in [
            "",
            "use std::fmt;\n",
            "//! x\n",
            "// Reads one event of any kind.\n",
            "\n//! Reads one event of any kind.\n",
        ] {
            assert_eq!(findings(module_docs, path, text).len(), 1, "{text:?}");
        }
        assert!(findings(module_docs, path, "//! Reads one event of any kind.\n").is_empty());
        assert!(findings(module_docs, "functions/ingest/src/decode/tests.rs", "use super::*;\n").is_empty());
    }

    #[test]
    fn an_exception_without_a_reason_is_found() {
        let path = "functions/ingest/src/lib.rs";
        for text in [
            "#[allow(dead_code)]\nfn f() {}\n",
            "#![expect(clippy::panic)]\n",
            "fn f() {\n    #[allow(unused)]\n    let a = 1;\n}\n",
            "#[cfg_attr(test, allow(dead_code))]\nfn f() {}\n",
        ] {
            assert_eq!(findings(allowances, path, text).len(), 1, "{text}");
        }
        let with_reason = "#[expect(dead_code, reason = \"the wire format has it\")]\nfn f() {}\n";
        assert!(findings(allowances, path, with_reason).is_empty());
        assert!(
            findings(allowances, path, "// #[allow(dead_code)]\n#[arg(allow)]\nfn f() { expect(1); }\n").is_empty()
        );
    }

    #[test]
    fn every_forbidden_word_is_found_with_its_line() {
        for (first, second, _) in FORBIDDEN {
            let text = format!("one\ntwo {first}{second} three\n");
            let found = findings(forbidden_words, "infra/notes.yaml", &text);
            assert_eq!(found.len(), 1, "{first}{second}");
            assert!(found[0].starts_with("infra/notes.yaml:2: "), "{found:?}");
        }
        assert!(findings(forbidden_words, "infra/notes.yaml", "to do: a workspace, a root\n").is_empty());
    }
}
