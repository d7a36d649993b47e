//! Who may name an AWS type, read a clock or look into the environment. Only what is shipped is judged: tests may do all
//! three.

use crate::source::{Token, lines_with, shipped};
use crate::tree::{Tree, is_test_file};

/// The one crate that names AWS types.
const NAMES_AWS: &str = "storage";
/// The one crate that reads clocks and the environment.
const READS_CLOCK: &str = "runtime";

const AWS_NAMES: &[&str] =
    &["aws_sdk_", "aws_config", "aws_smithy_", "aws_types", "aws_credential_types", "aws_runtime"];

/// Calls that read a clock or the environment, and the forms of import that would hide one.
const CLOCK_OR_ENVIRONMENT: &[&str] = &[
    "SystemTime : : now",
    "SystemTime as",
    "Instant : : now",
    "Instant as",
    "env : : var",
    "env : : var_os",
    "env : : vars",
    "env : : vars_os",
    "env : : {",
    "env : : *",
    "env as",
];

/// What the pure crate does not even mention.
const NOT_PURE: &[&str] = &[
    "tokio",
    "futures",
    "async",
    "await",
    "rand",
    "uuid",
    "SystemTime",
    "Instant",
    "sleep",
    "std : : env",
    "std : : fs",
    "std : : io",
    "std : : net",
    "std : : process",
    "std : : thread",
    "println",
    "eprintln",
];

/// AWS types are named by storage alone.
pub(crate) fn aws_names(tree: &Tree) -> Vec<String> {
    judge(
        tree,
        |name| name != NAMES_AWS,
        |tokens| {
            let is_aws = |token: &&Token| AWS_NAMES.iter().any(|prefix| token.text.starts_with(prefix));
            let named = tokens.iter().filter(is_aws);
            named
                .map(|token| (token.line, format!("names `{}`; only functions/storage names AWS types", token.text)))
                .collect()
        },
    )
}

/// Clocks and the environment are read by runtime alone.
pub(crate) fn clocks_and_environment(tree: &Tree) -> Vec<String> {
    judge(
        tree,
        |name| name != READS_CLOCK,
        |tokens| uses(tokens, CLOCK_OR_ENVIRONMENT, "only functions/runtime reads a clock or the environment"),
    )
}

/// The pure crate decides from its arguments, and from nothing else.
pub(crate) fn protocol(tree: &Tree) -> Vec<String> {
    judge(tree, |name| name == "protocol", |tokens| uses(tokens, NOT_PURE, "the protocol crate is pure"))
}

type Fault = (usize, String);

fn judge(tree: &Tree, concerns: fn(&str) -> bool, faults_of: fn(&[Token]) -> Vec<Fault>) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, path, text) in tree.crate_sources() {
        if !concerns(name) || is_test_file(path) {
            continue;
        }
        match shipped(text) {
            Ok(tokens) => {
                findings.extend(faults_of(&tokens).into_iter().map(|(line, fault)| format!("{path}:{line}: {fault}")));
            }
            Err(error) => findings.push(format!("{path}: {error}")),
        }
    }
    findings
}

fn uses(tokens: &[Token], patterns: &[&str], rule: &str) -> Vec<Fault> {
    let found =
        patterns.iter().flat_map(|pattern| lines_with(tokens, pattern).into_iter().map(move |line| (line, pattern)));
    found.map(|(line, pattern)| (line, format!("uses `{}`; {rule}", pattern.replace(" : : ", "::")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rule: fn(&Tree) -> Vec<String>, path: &str, text: &str) -> Vec<String> {
        rule(&Tree::sample(&[(path, text)]))
    }

    #[test]
    fn an_aws_name_outside_storage_is_found() {
        let text = "//! x\nuse aws_sdk_sqs::Client;\n";
        let found = findings(aws_names, "functions/drainer/src/lib.rs", text);
        assert_eq!(
            found,
            ["functions/drainer/src/lib.rs:2: names `aws_sdk_sqs`; only functions/storage names AWS types"]
        );
        assert!(findings(aws_names, "functions/storage/src/lib.rs", text).is_empty());
        assert!(findings(aws_names, "functions/drainer/src/send/tests.rs", text).is_empty());
        let in_test = "#[cfg(test)]\nmod tests { use aws_sdk_sqs::Client; }\n";
        assert!(findings(aws_names, "functions/drainer/src/lib.rs", in_test).is_empty());
    }

    #[test]
    fn a_clock_outside_runtime_is_found_in_every_spelling() {
        let spellings = [
            "fn f() { let now = std::time::SystemTime::now(); }",
            "fn f() { let now = tokio::time::Instant::now(); }",
            "fn f() { log!(\"{:?}\", Instant::now()); }",
            "use std::time::SystemTime as Wall;",
            "fn f() { std::env::var(\"REGION\"); }",
            "use std::env::{var, args};",
            "use std::env as surroundings;",
        ];
        for text in spellings {
            assert_eq!(findings(clocks_and_environment, "functions/ingest/src/lib.rs", text).len(), 1, "{text}");
            assert!(findings(clocks_and_environment, "functions/runtime/src/clock.rs", text).is_empty(), "{text}");
        }
        let arguments = "fn f() { let arguments = std::env::args(); }";
        assert!(findings(clocks_and_environment, "functions/fencepost/src/main.rs", arguments).is_empty());
    }

    #[test]
    fn the_pure_crate_may_not_wait_or_look_around() {
        for text in ["async fn f() {}", "fn f() { tokio::time::sleep(d); }", "use std::fs;", "fn f(now: Instant) {}"] {
            assert!(!findings(protocol, "functions/protocol/src/lease.rs", text).is_empty(), "{text}");
        }
        assert!(
            findings(protocol, "functions/protocol/src/lease.rs", "//! No clock, no `tokio`.\nfn f() {}").is_empty()
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_as_rust_does_not_pass() {
        assert!(findings(aws_names, "functions/ingest/src/lib.rs", "fn f( {")[0].contains("not Rust"));
    }
}
