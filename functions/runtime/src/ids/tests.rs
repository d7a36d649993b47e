use std::collections::BTreeSet;

use super::*;

#[test]
fn random_ids_differ() {
    let ids = RandomIds;
    let attempts: BTreeSet<_> = (0..1_000).map(|_| ids.attempt()).collect();
    let claims: BTreeSet<_> = (0..1_000).map(|_| ids.claim()).collect();
    assert_eq!((attempts.len(), claims.len()), (1_000, 1_000));
}

#[test]
fn rolls_spread_over_their_range() {
    let seeded = SeededIds::new(7);
    let sources: [&dyn Ids; 2] = [&RandomIds, &seeded];
    for source in sources {
        let rolls: Vec<u64> = (0..4_000).map(|_| source.roll()).collect();
        for modulus in [10, 64] {
            for rest in 0..modulus {
                let hits = rolls.iter().filter(|roll| *roll % modulus == rest).count();
                assert!(hits > 20, "{hits} of 4000 leave {rest} of {modulus}");
            }
        }
        let high = rolls.iter().filter(|roll| **roll > u64::MAX / 2).count();
        assert!((1_700..2_300).contains(&high), "{high} of 4000 in the upper half");
    }
}

#[test]
fn a_seed_repeats_itself_and_no_other() {
    let run = |seed| {
        let ids = SeededIds::new(seed);
        (ids.attempt(), ids.claim(), ids.roll(), ids.attempt())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_ne!(run(1).0, run(1).3);
}

#[test]
fn the_longest_seeded_id_is_well_formed() {
    let ids = SeededIds { seed: u64::MAX, count: AtomicU64::new(u64::MAX) };
    assert_eq!(ids.attempt().as_str().len(), "attempt-".len() + 20 + 1 + 20);
    let ids = SeededIds { seed: u64::MAX, count: AtomicU64::new(u64::MAX) };
    ids.claim();
}
