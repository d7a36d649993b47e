//! The rules that hold the house together, checked on the files themselves: who may depend on whom, who may read a clock
//! or name an AWS type, what stands at the top level, that README's map is true, how long a file may be.
//!
//! Every rule is a function from a [`tree::Tree`] to a list of findings, so each is tried twice: on this repository, where
//! it must find nothing, and on a small broken sample, where it must find the fault. Nothing here builds or runs code.

mod cases;
mod dependencies;
mod events;
mod figures;
mod layout;
mod mutants;
mod purity;
mod readme;
mod source;
mod tree;
mod writing;

use tree::Tree;

/// Fails with every finding at once, one a line.
macro_rules! holds {
    ($name:ident, $rule:path) => {
        #[test]
        fn $name() {
            let tree = Tree::of_this_repository().expect("this repository can be read");
            let findings = $rule(&tree);
            assert!(findings.is_empty(), "{} finding(s):\n  {}", findings.len(), findings.join("\n  "));
        }
    };
}

holds!(crates_depend_only_on_what_the_rule_allows, dependencies::edges);
holds!(versions_and_lints_are_stated_once_for_all, dependencies::shared_settings);
holds!(aws_types_are_named_only_by_storage, purity::aws_names);
holds!(clock_and_environment_are_read_only_by_runtime, purity::clocks_and_environment);
holds!(protocol_is_pure, purity::protocol);
holds!(the_top_level_shows_what_it_should, layout::top_level);
holds!(no_file_is_too_long, layout::file_length);
holds!(the_code_map_of_the_readme_is_true, readme::code_map);
holds!(figures_of_the_readme_are_those_of_the_files, figures::counted);
holds!(every_module_says_what_it_is_for, writing::module_docs);
holds!(every_allowed_lint_has_a_reason, writing::allowances);
holds!(no_forbidden_words, writing::forbidden_words);
holds!(sample_events_are_valid_and_documented, events::samples);
holds!(every_break_of_the_code_still_applies, mutants::lists);
holds!(every_numbered_case_has_its_test_and_its_break, cases::numbers_and_breaks);
