//! What may come of an input.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::corpus::{self, Seed};
use crate::damage::{self, ATTRIBUTE_KINDS, Damage, Kind, SECRET, UNKNOWN};
use crate::decoder::{Declared, Decoder, Refusal};
use crate::paths::{dotted, fits};

/// Words of a refusal: enough to tell the field and the fix, too few for a log line to be a burden.
const PROBLEM_CHARS_MAX: usize = 4_000;

/// What is wrong with the verdict on a seed.
pub(crate) fn of_seed(decoder: &Decoder, seed: &Seed) -> Option<String> {
    let wrong = match (&seed.refused, (decoder.decode)(&seed.input)) {
        (None, Ok(meaning)) => reads_the_same_again(decoder, &meaning)?,
        (None, Err(refusal)) => format!("is refused: {}: {}", refusal.field, refusal.problem),
        (Some(field), Err(refusal)) if refusal.field == *field => well_formed(&refusal)?,
        (Some(field), Err(refusal)) => {
            format!("is refused for {} and not for {field}: {}", refusal.field, refusal.problem)
        }
        (Some(field), Ok(_)) => format!("is accepted; {field} should be refused"),
    };
    Some(format!("{}: {}: {wrong}", decoder.name, seed.name))
}

/// What is wrong with the verdict on any input at all.
pub(crate) fn of_anything(decoder: &Decoder, input: &Value) -> Option<String> {
    match (decoder.decode)(input) {
        Ok(meaning) => reads_the_same_again(decoder, &meaning),
        Err(refusal) => well_formed(&refusal),
    }
}

fn reads_the_same_again(decoder: &Decoder, meaning: &Value) -> Option<String> {
    match (decoder.decode)(meaning) {
        Ok(again) if again == *meaning => None,
        Ok(again) => Some(format!("written anew it means something else: {meaning} and then {again}")),
        Err(refusal) => Some(format!("written anew it is refused: {}: {}", refusal.field, refusal.problem)),
    }
}

fn well_formed(refusal: &Refusal) -> Option<String> {
    if refusal.field.is_empty() || refusal.problem.is_empty() {
        return Some("the refusal names no field, or gives no reason".to_owned());
    }
    let chars = refusal.problem.chars().count();
    (chars > PROBLEM_CHARS_MAX).then(|| format!("the refusal has {chars} characters"))
}

/// What is wrong with the verdict on a single damage of an input that means `original`.
pub(crate) fn of_damage(decoder: &Decoder, original: &Value, damage: &Damage) -> Option<String> {
    let wrong = match (decoder.decode)(&damage.input) {
        Err(refusal) => of_refusal(decoder, damage, &refusal)?,
        Ok(meaning) if meaning == *original => {
            if tolerated(decoder, damage, false) {
                return None;
            } else {
                "changes nothing and is not declared as unread".to_owned()
            }
        }
        Ok(meaning) => {
            if !tolerated(decoder, damage, true) {
                "is silently accepted".to_owned()
            } else {
                reads_the_same_again(decoder, &meaning)?
            }
        }
    };
    Some(format!("{} {:?} ({}): {wrong}", damage.place, damage.kind, damage.now))
}

fn of_refusal(decoder: &Decoder, damage: &Damage, refusal: &Refusal) -> Option<String> {
    if let Some(finding) = well_formed(refusal) {
        return Some(finding);
    }
    if decoder.discreet && refusal.problem.contains(SECRET) {
        return Some(format!("the refusal repeats what it found: {}", refusal.problem));
    }
    let place = (decoder.stated)(&damage.place);
    let blamed = dotted(&refusal.field);
    let within = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let named = match damage.kind {
        Kind::Joined => UNKNOWN,
        _ => field_of(&place),
    };
    let partner = decoder.blamed.iter().any(|(damaged, field)| fits(damaged, &place) && fits(field, &blamed));
    if within(&blamed, &place) || within(&place, &blamed) || says(&refusal.problem, named) || partner {
        return None;
    }
    Some(format!("{} is blamed: {}", refusal.field, refusal.problem))
}

/// The innermost field of a place: no number of an element, and no kind of a typed attribute, which any sentence may contain.
fn field_of(place: &str) -> &str {
    let is_field = |part: &&str| !part.bytes().all(|byte| byte.is_ascii_digit()) && !ATTRIBUTE_KINDS.contains(part);
    place.rsplit('.').find(is_field).unwrap_or_default()
}

/// Does `text` contain `word` as a word of its own?
fn says(text: &str, word: &str) -> bool {
    let part_of_a_word = |found: char| found.is_alphanumeric() || found == '_';
    let is_whole =
        |at: usize| !text[..at].ends_with(part_of_a_word) && !text[at + word.len()..].starts_with(part_of_a_word);
    !word.is_empty() && text.match_indices(word).any(|(at, _)| is_whole(at))
}

#[test]
fn a_field_is_named_by_a_whole_word_and_by_no_number() {
    for (place, field) in
        [("a.topic", "topic"), ("Records.0", "Records"), ("renewal.N", "renewal"), ("0", ""), ("", "")]
    {
        assert_eq!(field_of(place), field, "{place}");
    }
    for (text, word, said) in [
        ("topic is missing", "topic", true),
        ("`topic` is missing", "topic", true),
        ("topics are missing", "topic", false),
        ("must be 10 at most", "0", false),
        ("is missing", "", false),
    ] {
        assert_eq!(says(text, word), said, "{word} in {text}");
    }
}

/// Is it declared that the change is accepted, with another meaning or (`other` false) with none?
fn tolerated(decoder: &Decoder, damage: &Damage, other: bool) -> bool {
    let declared = |list: &'static [Declared]| list.iter().find(|(pattern, _)| fits(pattern, &damage.place));
    let found = match damage.kind {
        Kind::Joined => return declared(decoder.open).is_some_and(note_use),
        _ if other && decoder.fixed.iter().any(|pattern| fits(pattern, &damage.place)) => return false,
        Kind::Changed if other => return true,
        Kind::Removed | Kind::Emptied => {
            declared(decoder.optional).or_else(|| declared(if other { decoder.free } else { decoder.unread }))
        }
        Kind::Changed | Kind::Retyped => declared(if other { decoder.free } else { decoder.unread }),
    };
    found.is_some_and(note_use)
}

thread_local! {
    static USED: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
}

/// Entries are known by where they stand in memory: the tables are constants.
fn note_use(entry: &'static Declared) -> bool {
    USED.with_borrow_mut(|used| used.insert(std::ptr::from_ref(entry).addr()));
    true
}

/// Entries of the decoder's tables that no damage of its corpus needs.
pub(crate) fn unused_tolerances(decoder: &Decoder) -> Vec<String> {
    USED.with_borrow_mut(BTreeSet::clear);
    for seed in corpus::seeds(decoder).iter().filter(|seed| seed.refused.is_none()) {
        let original = (decoder.decode)(&seed.input).unwrap();
        for damage in damage::all(decoder, &seed.input) {
            let _ = of_damage(decoder, &original, &damage);
        }
    }
    let tables =
        [("optional", decoder.optional), ("unread", decoder.unread), ("free", decoder.free), ("open", decoder.open)];
    let unused =
        |entry: &&'static Declared| USED.with_borrow(|used| !used.contains(&std::ptr::from_ref(*entry).addr()));
    tables
        .into_iter()
        .flat_map(|(table, entries)| entries.iter().filter(unused).map(move |(pattern, _)| (table, pattern)))
        .map(|(table, pattern)| format!("{}: {table}: nothing needs {pattern:?}", decoder.name))
        .collect()
}
