//! README's settings table is the table that the functions parse by.

/// The lines around the table in README.md.
const START: &str = "<!-- settings: written by fencepost_runtime::settings::markdown; a test compares -->\n";
const END: &str = "<!-- end of settings -->";

#[test]
fn the_settings_table_of_the_readme_is_the_one_of_the_code() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(path).expect("README.md stands at the top level");
    let table = readme.split_once(START).and_then(|(_, rest)| rest.split_once(END)).map(|(table, _)| table);
    let expected = fencepost_runtime::settings::markdown();
    assert_eq!(table, Some(expected.as_str()), "put this between the two comments of README.md:\n{expected}");
}
