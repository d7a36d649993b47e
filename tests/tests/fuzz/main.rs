//! Every decoder against damaged input: events, requests, records, settings, bodies.
//!
//! Three questions, each to every decoder ([`decoder::DECODERS`]):
//! - **Corpus.** Does each seed of `tests/corpus/<decoder>/`, and each sample event of the functions, still come to the verdict
//!   that stands in it?
//! - **Single damages.** Each accepted seed is changed in one place, in every way that the place can be wrong. Is the change
//!   refused by the name of its field, or does the decoder's table say why it is tolerated? Nothing else passes: what changes
//!   nothing must be declared as unread, what changes the meaning must be of the same kind.
//! - **Random damages.** Whatever comes, no decoder panics; what it accepts reads the same again after it was written anew;
//!   what it refuses has a name.
//!
//! `PROPTEST_CASES` says how many random inputs each decoder gets (256 unless set; `tests/run soak` sets more). What is found
//! is kept: the failure prints a seed to put into the corpus.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod bodies;
mod corpus;
mod damage;
mod decoder;
mod ingest;
mod paths;
mod random;
mod records;
mod requests;
mod settings;
mod verdict;

use decoder::DECODERS;

#[test]
fn the_corpus_still_comes_to_its_verdicts() {
    let mut findings = corpus::strays();
    for decoder in DECODERS {
        let seeds = corpus::seeds(decoder);
        assert!(seeds.iter().any(|seed| seed.refused.is_none()), "{}: no seed is accepted", decoder.name);
        assert!(seeds.iter().any(|seed| seed.refused.is_some()), "{}: no seed is refused", decoder.name);
        findings.extend(seeds.iter().filter_map(|seed| verdict::of_seed(decoder, seed)));
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn each_single_damage_is_refused_by_name_or_declared_as_tolerated() {
    let (mut findings, mut damages) = (Vec::new(), 0);
    for decoder in DECODERS {
        for seed in corpus::seeds(decoder).iter().filter(|seed| seed.refused.is_none()) {
            let original = (decoder.decode)(&seed.input).unwrap();
            let all = damage::all(decoder, &seed.input);
            damages += all.len();
            let found = all.iter().filter_map(|damage| verdict::of_damage(decoder, &original, damage));
            findings.extend(found.map(|finding| format!("{}: {}: {finding}", decoder.name, seed.name)));
        }
    }
    assert!(damages > 10_000, "only {damages} damages were made");
    findings.sort();
    findings.dedup();
    let shown = findings.iter().take(100).map(String::as_str).collect::<Vec<_>>();
    assert!(findings.is_empty(), "{} of {damages} damages:\n{}", findings.len(), shown.join("\n"));
}

#[test]
fn every_declared_tolerance_is_used() {
    let findings: Vec<String> = DECODERS.iter().flat_map(verdict::unused_tolerances).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
