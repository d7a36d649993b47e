use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Asked {
    Look {},
    Take { rows: Vec<Row>, limit: u32 },
}

#[derive(Debug, PartialEq, Deserialize)]
struct Row {
    at: u64,
}

fn refused(input: Value) -> (String, String) {
    let Malformed { field, problem } = command::<Asked>(input).expect_err("it does not fit");
    (field, problem)
}

#[test]
fn a_command_is_read_from_the_fields_beside_its_name() {
    assert_eq!(command(json!({ "command": "look" })), Ok(Asked::Look {}));
    let take = json!({ "command": "take", "rows": [{ "at": 3 }], "limit": 2 });
    assert_eq!(command(take), Ok(Asked::Take { rows: vec![Row { at: 3 }], limit: 2 }));
}

#[test]
fn a_refusal_names_the_field_by_its_path() {
    let cases = [
        (json!([1]), "input", "no JSON object"),
        (json!({ "rows": [] }), "command", "is missing"),
        (json!({ "command": 7 }), "command", "is no text"),
        (json!({ "command": "grab" }), "command", "unknown variant `grab`, expected `look` or `take`"),
        (json!({ "command": "" }), "command", "unknown variant"),
        (json!({ "command": "take", "rows": [] }), "input", "missing field `limit`"),
        (json!({ "command": "take", "rows": [{ "at": 1 }, { "at": "x" }], "limit": 1 }), "rows[1].at", "invalid type"),
        (json!({ "command": "take", "rows": [], "limit": -1 }), "limit", "invalid value"),
        (json!({ "command": "take", "rows": [], "limit": 1, "dry": true }), "dry", "unknown field `dry`"),
        (json!({ "command": "look", "limit": 1 }), "limit", "unknown field `limit`"),
    ];
    for (input, field, words) in cases {
        let (named, problem) = refused(input.clone());
        assert_eq!(named, field, "{input}: {problem}");
        assert!(problem.contains(words), "{input}: {problem}");
    }
}

#[test]
fn a_refusal_is_short_whatever_was_found() {
    let (field, problem) = refused(json!({ "command": "take", "rows": "é".repeat(10_000), "limit": 1 }));
    assert_eq!(field, "rows");
    assert!(problem.chars().count() < 1_000, "{problem}");
    assert!(read::<Row>("row", json!({ "at": [] })).expect_err("a list").field == "at");
    assert!(read::<Row>("row", json!([])).expect_err("a list").field == "row");
}
