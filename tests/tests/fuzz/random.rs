//! Inputs by chance: seeds damaged in several places at once, mixed with each other, and plain noise.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, Value, json};

use crate::corpus;
use crate::damage::{UNKNOWN, insides};
use crate::decoder::{DECODERS, Decoder};
use crate::paths::{changed, get, places, without};
use crate::verdict;

/// Changes of one input at most.
const CHANGES_MAX: usize = 6;

/// One change, its place yet to be chosen.
#[derive(Debug, Clone)]
enum Change {
    Remove(Index),
    Put(Index, Value),
    /// Put there what stands at a place of another seed.
    Borrow(Index, Index, Index),
    /// Cut or stretch the text there.
    Stretch(Index, Index, String),
    Join(Index, Value),
}

fn noise() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_u64..20).prop_map(Value::from),
        (9_999_999_999_990_u64..10_000_000_000_010).prop_map(Value::from),
    ];
    let text = prop_oneof![
        any::<String>(),
        "[0-9]{1,25}",
        "[a-z]{1,8}#[0-9]{3,5}",
        "[0-9]{12,14}#[a-z~]{0,4}",
        "[0-9.]{1,6}(ms|s|m|h|d|w)?",
        "[A-Za-z0-9+/]{0,12}={0,2}",
        "[a-f0-9]{63,65}",
    ];
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, text.prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    let known = [
        "command",
        "shards",
        "mode",
        "kind",
        "cursor",
        "carried",
        "Records",
        "eventSource",
        "body",
        "kinesis",
        "dynamodb",
        "Keys",
        "shard",
        "S",
        "N",
        "B",
        "L",
        "M",
        "schema",
        "payload",
        "topic",
        "requestPayload",
        "base64OriginalPayload",
        "RequestType",
        "position",
        "status",
        "claim",
        UNKNOWN,
    ];
    prop_oneof![4 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        2 => at().prop_map(Change::Remove),
        4 => (at(), noise()).prop_map(|(at, value)| Change::Put(at, value)),
        2 => (at(), at(), at()).prop_map(|(at, seed, from)| Change::Borrow(at, seed, from)),
        3 => (at(), at(), any::<String>()).prop_map(|(at, cut, text)| Change::Stretch(at, cut, text)),
        1 => (at(), noise()).prop_map(|(at, value)| Change::Join(at, value)),
    ]
}

/// `input` after `change`; itself where there is nothing to change.
fn apply(decoder: &Decoder, seeds: &[Value], input: Value, change: &Change) -> Value {
    let inside = insides(decoder);
    let all = places(&input, &inside);
    if all.is_empty() {
        return input;
    }
    let place = |at: &Index| all[at.index(all.len())].as_slice();
    let applied = match change {
        Change::Remove(at) => without(&input, place(at)),
        Change::Put(at, value) => changed(&input, place(at), &mut |place| *place = value.clone()),
        Change::Borrow(at, seed, from) => {
            let seed = seed.get(seeds);
            let theirs = places(seed, &inside);
            let value = theirs.get(from.index(theirs.len().max(1))).and_then(|steps| get(seed, steps));
            value.and_then(|value| changed(&input, place(at), &mut |place| *place = value.clone()))
        }
        Change::Stretch(at, cut, text) => changed(&input, place(at), &mut |place| {
            if let Value::String(old) = place {
                let chars: Vec<char> = old.chars().collect();
                let (head, tail) = chars.split_at(cut.index(chars.len() + 1));
                *old = head.iter().copied().chain(text.chars()).chain(tail.iter().skip(1).copied()).collect();
            }
        }),
        Change::Join(at, value) => changed(&input, place(at), &mut |place| match place {
            Value::Object(fields) => drop(fields.insert(UNKNOWN.to_owned(), value.clone())),
            Value::Array(elements) => elements.push(value.clone()),
            _ => {}
        }),
    };
    applied.unwrap_or(input)
}

fn check(decoder: &Decoder, input: &Value) -> Result<(), TestCaseError> {
    let looked = std::panic::catch_unwind(|| verdict::of_anything(decoder, input));
    let finding = looked.unwrap_or_else(|_| Some("it panicked".to_owned()));
    let seed = || json!({ "why": "found by chance", "refused": "which field?", "input": input });
    match finding {
        None => Ok(()),
        Some(finding) => {
            Err(TestCaseError::fail(format!("{finding}\nkeep it in tests/corpus/{}/: {}", decoder.name, seed())))
        }
    }
}

/// Runs one decoder on as many inputs as `PROPTEST_CASES` says.
fn run(decoder: &Decoder) -> Result<(), String> {
    let seeds: Vec<Value> = corpus::seeds(decoder).into_iter().map(|seed| seed.input).collect();
    let strategy = prop_oneof![
        9 => (any::<Index>(), vec(change(), 1..=CHANGES_MAX)).prop_map(|(seed, changes)| (Some(seed), changes, Value::Null)),
        1 => noise().prop_map(|value| (None, Vec::new(), value)),
    ];
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&strategy, |(seed, changes, noise)| {
        let start = seed.map_or(noise, |seed| seed.get(&seeds).clone());
        let input = changes.iter().fold(start, |input, change| apply(decoder, &seeds, input, change));
        check(decoder, &input)
    });
    outcome.map_err(|error| format!("{}: {error}", decoder.name))
}

#[test]
fn nothing_makes_a_decoder_panic_and_what_is_accepted_reads_the_same_again() {
    let findings: Vec<String> = DECODERS.iter().filter_map(|decoder| run(decoder).err()).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}
