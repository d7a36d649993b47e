use std::time::Duration;

use super::*;
use crate::ids::{InstanceName, LeaseName, Position, StackId};

fn key(ms: u64, id: &str) -> RowKey {
    let shard = Shard::new(LeaseName::new("telemetry").unwrap(), 0).unwrap();
    RowKey { shard, position: Position::new(at(ms), MessageId::new(id).unwrap()).unwrap() }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(1_767_225_600_000 + ms)
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

fn claim(name: &str) -> ClaimId {
    ClaimId::new(name).unwrap()
}

fn owner(name: &str) -> Identity {
    Identity { name: InstanceName::new(name).unwrap(), stack: StackId::new("s").unwrap() }
}

fn digest() -> PayloadDigest {
    PayloadDigest::of(b"x")
}

fn acquired(number: u64, name: &str) -> Observation {
    Observation::Acquired { token: token(number), owner: owner(name) }
}

fn ingested(ms: u64, id: &str) -> Observation {
    Observation::Ingested { key: key(ms, id), digest: digest(), stamp: Stamp::NONE, ordering_key: "device".to_owned() }
}

fn claimed(ms: u64, id: &str, number: u64, by: &str) -> Observation {
    Observation::Claimed {
        key: key(ms, id),
        claim: claim(by),
        token: token(number),
        decided_at: at(5),
        deadline: at(10),
    }
}

fn sent(ms: u64, id: &str, by: &str) -> Observation {
    Observation::SendStarted { key: key(ms, id), claim: claim(by), decided_at: at(6), ends_by: at(9), deadline: at(10) }
}

fn accepted(id: &str) -> Observation {
    Observation::Accepted { id: MessageId::new(id).unwrap(), digest: digest() }
}

fn committed(ms: u64, id: &str, number: u64) -> Observation {
    Observation::Committed { key: key(ms, id), token: token(number) }
}

fn page(by: &str) -> Observation {
    Observation::PageRead { shard: key(0, "x").shard, claim: claim(by), pass: claim(by), after: None }
}

fn broken(history: Vec<Observation>, outstanding: &[RowKey], dead: &[RowKey]) -> Vec<Invariant> {
    let mut audit = Audit::new(AuditTerms { ordered: true, vacancy_max: Some(Duration::from_millis(100)) });
    for observation in history {
        audit.observe(observation);
    }
    audit.finish(at(1_000), outstanding, dead).into_iter().map(|violation| violation.invariant).collect()
}

#[test]
fn a_good_history_breaks_nothing() {
    let history = vec![
        acquired(1, "east"),
        Observation::Able { at: at(0), able: true },
        Observation::Leading { at: at(50), somebody: true },
        ingested(1, "a"),
        ingested(2, "b"),
        ingested(3, "c"),
        page("p"),
        claimed(1, "a", 1, "p"),
        claimed(2, "b", 1, "p"),
        sent(1, "a", "p"),
        accepted("a"),
        sent(2, "b", "p"),
        accepted("b"),
        committed(1, "a", 1),
        committed(2, "b", 1),
        Observation::Stored { record: "c".to_owned(), carries_expiry: false },
        acquired(2, "west"),
    ];
    assert_eq!(broken(history, &[key(3, "c")], &[]), []);
}

#[test]
fn each_invariant_is_broken_by_its_own_history() {
    use Invariant::{I1, I2, I3, I4, I5, I6, I7, I8, I9, I10};
    let whole = |id: &str| vec![ingested(1, id), claimed(1, id, 5, "p"), accepted(id)];
    let died = |id: &str| Observation::Died { key: key(1, id) };
    let late = Observation::Claimed {
        key: key(1, "a"),
        claim: claim("p"),
        token: token(1),
        decided_at: at(11),
        deadline: at(10),
    };
    let overrun = Observation::SendStarted {
        key: key(1, "a"),
        claim: claim("p"),
        decided_at: at(6),
        ends_by: at(11),
        deadline: at(10),
    };
    let vacant =
        |ms| vec![Observation::Able { at: at(0), able: true }, Observation::Leading { at: at(ms), somebody: true }];
    let stands = [key(1, "a")];
    let table = [
        ("a token again", vec![acquired(5, "east"), acquired(5, "east")], &[][..], vec![I1]),
        ("a lower token", vec![acquired(5, "east"), acquired(4, "west")], &[], vec![I1]),
        ("a token for two", vec![acquired(5, "east"), acquired(5, "west")], &[], vec![I1, I2]),
        ("two commits", [whole("a"), vec![committed(1, "a", 5), committed(1, "a", 5)]].concat(), &[], vec![I3]),
        ("never accepted", vec![ingested(1, "a"), committed(1, "a", 5)], &[], vec![I4]),
        ("lost", vec![ingested(1, "a")], &[], vec![I5]),
        ("lost when dying", vec![ingested(1, "a"), died("a")], &[], vec![I5]),
        ("from nowhere", vec![], &stands, vec![I5]),
        ("committed and back", [whole("a"), vec![committed(1, "a", 5)]].concat(), &stands, vec![I5]),
        ("committed after dying", [whole("a"), vec![died("a"), committed(1, "a", 5)]].concat(), &[], vec![I5, I5]),
        ("purged alive", vec![ingested(1, "a"), Observation::Purged { key: key(1, "a") }], &stands, vec![I5]),
        ("under a lower token", [whole("a"), vec![committed(1, "a", 4)]].concat(), &[], vec![I6]),
        ("late claim", vec![ingested(1, "a"), late], &stands, vec![I7]),
        ("send that ends late", vec![ingested(1, "a"), overrun], &stands, vec![I7]),
        (
            "a row that expires",
            vec![Observation::Stored { record: "a".to_owned(), carries_expiry: true }],
            &[],
            vec![I8],
        ),
        (
            "overtaken",
            vec![
                ingested(1, "a"),
                ingested(2, "b"),
                page("p"),
                claimed(2, "b", 1, "p"),
                sent(2, "b", "p"),
                accepted("b"),
                committed(2, "b", 1),
            ],
            &stands,
            vec![I9],
        ),
        ("vacant too long", vacant(101), &[], vec![I10]),
        ("just in time", vacant(100), &[], vec![]),
        ("vacant to the end", vec![Observation::Able { at: at(0), able: true }], &[], vec![I10]),
        ("nobody could", vec![Observation::Leading { at: at(0), somebody: false }], &[], vec![]),
    ];
    for (name, history, outstanding, expected) in table {
        assert_eq!(broken(history, outstanding, &[]), expected, "{name}");
    }
}

#[test]
fn only_what_was_visible_and_open_can_be_overtaken() {
    let send_b = || vec![claimed(2, "b", 1, "p"), sent(2, "b", "p"), accepted("b"), committed(2, "b", 1)];
    let a = [key(1, "a")];
    for (name, history, outstanding) in [
        ("came after the read", vec![ingested(2, "b"), page("p"), ingested(1, "a")], &a[..]),
        (
            "accepted, not yet committed",
            vec![ingested(1, "a"), ingested(2, "b"), page("p"), sent(1, "a", "p"), accepted("a")],
            &a,
        ),
        ("dead", vec![ingested(1, "a"), ingested(2, "b"), Observation::Died { key: key(1, "a") }, page("p")], &[]),
    ] {
        let dead: &[RowKey] = if outstanding.is_empty() { &a } else { &[] };
        assert_eq!(broken([history, send_b()].concat(), outstanding, dead), [], "{name}");
    }
    let second = Observation::PageRead {
        shard: key(0, "x").shard,
        claim: claim("p"),
        pass: claim("first"),
        after: Some(key(1, "b").position),
    };
    let behind_the_cursor = vec![page("first"), ingested(1, "a"), ingested(2, "b"), second.clone()];
    assert_eq!(broken([behind_the_cursor, send_b()].concat(), &a, &[]), [], "appeared behind the cursor");
    let seen_before = vec![ingested(1, "a"), page("first"), ingested(2, "b"), second];
    assert_eq!(
        broken([seen_before, send_b()].concat(), &a, &[]),
        [Invariant::I9],
        "an earlier page of the pass showed it"
    );
    let mut audit = Audit::new(AuditTerms { ordered: true, vacancy_max: None });
    for observation in
        [vec![ingested(2, "b"), page("p")], send_b(), vec![ingested(1, "a"), page("q"), sent(1, "a", "q")]].concat()
    {
        audit.observe(observation);
    }
    assert_eq!((audit.inversions(), audit.violations()), (1, &[][..]), "counted, not forbidden");
}

#[test]
fn what_a_send_could_see_is_judged_by_the_page_that_covers_its_place() {
    let (first, a) = (page("first"), [key(2, "a")]);
    let second = |after| Observation::PageRead {
        shard: key(0, "x").shard,
        claim: claim("p"),
        pass: claim("first"),
        after: Some(after),
    };
    let send_b = || vec![claimed(3, "b", 1, "p"), sent(3, "b", "p"), accepted("b"), committed(3, "b", 1)];
    for (name, after, expected) in [
        ("the second page begins before it", key(1, "z").position, vec![Invariant::I9]),
        ("the second page begins behind it", key(2, "a").position, vec![]),
    ] {
        let history = vec![first.clone(), ingested(2, "a"), ingested(3, "b"), second(after)];
        assert_eq!(broken([history, send_b()].concat(), &a, &[]), expected, "{name}");
    }
    // A claim whose page's read was not observed saw what stood at the claim, and nothing that came after it.
    let came_later =
        vec![ingested(3, "b"), claimed(3, "b", 1, "p"), ingested(2, "a"), sent(3, "b", "p"), accepted("b")];
    assert_eq!(broken([came_later, vec![committed(3, "b", 1)]].concat(), &a, &[]), []);
    let stood = vec![ingested(2, "a"), ingested(3, "b"), claimed(3, "b", 1, "p"), sent(3, "b", "p"), accepted("b")];
    assert_eq!(broken([stood, vec![committed(3, "b", 1)]].concat(), &a, &[]), [Invariant::I9]);
    let unknown_claim =
        vec![ingested(2, "a"), ingested(3, "b"), sent(3, "b", "q"), accepted("b"), committed(3, "b", 1)];
    assert_eq!(broken(unknown_claim, &a, &[]), [Invariant::I9], "nothing excuses a send whose claim nobody saw");
}

#[test]
fn a_place_that_is_sent_from_again_is_no_inversion() {
    let other_shard = Shard::new(LeaseName::new("telemetry").unwrap(), 1).unwrap();
    let moved = |observation: Observation| match observation {
        Observation::Ingested { key, digest, stamp, ordering_key } => {
            Observation::Ingested { key: RowKey { shard: other_shard.clone(), ..key }, digest, stamp, ordering_key }
        }
        Observation::SendStarted { key, claim, decided_at, ends_by, deadline } => {
            let key = RowKey { shard: other_shard.clone(), ..key };
            Observation::SendStarted { key, claim, decided_at, ends_by, deadline }
        }
        other => other,
    };
    let mut audit = Audit::new(AuditTerms { ordered: true, vacancy_max: None });
    for observation in [ingested(1, "a"), moved(ingested(1, "a")), sent(1, "a", "p"), moved(sent(1, "a", "q"))] {
        audit.observe(observation);
    }
    assert_eq!(audit.inversions(), 0);
}

#[test]
fn the_judge_tells_what_it_has_seen_so_far() {
    let mut audit = Audit::new(AuditTerms { ordered: true, vacancy_max: None });
    assert_eq!((audit.inversions(), audit.conservation()), (0, Conservation::default()));
    let ends = |id: &str| Observation::Died { key: key(1, id) };
    let purged = Observation::Purged { key: key(1, "d") };
    let stored = ["a", "b", "c", "d", "e", "f"].map(|id| ingested(1, id));
    let rest = vec![accepted("a"), committed(1, "a", 1), ends("b"), ends("c"), ends("d"), purged];
    for observation in [stored.to_vec(), rest].concat() {
        audit.observe(observation);
    }
    let expected = Conservation { ingested: 6, committed: 1, dead: 2, outstanding: 2, purged: 1 };
    assert_eq!((audit.conservation(), audit.inversions(), audit.violations()), (expected, 0, &[][..]));
    audit.observe(acquired(2, "east"));
    audit.observe(acquired(1, "east"));
    assert_eq!(audit.violations().iter().map(|violation| violation.invariant).collect::<Vec<_>>(), [Invariant::I1]);
}

#[test]
fn a_decision_at_the_deadline_itself_is_in_time() {
    let at_the_deadline = Observation::Claimed {
        key: key(1, "a"),
        claim: claim("p"),
        token: token(1),
        decided_at: at(10),
        deadline: at(10),
    };
    assert_eq!(broken(vec![ingested(1, "a"), at_the_deadline], &[key(1, "a")], &[]), []);
}

#[test]
fn phantoms_stand_for_nothing_and_redriven_rows_may_commit_again() {
    let a = [key(1, "a")];
    let life = |number| vec![claimed(1, "a", number, "p"), accepted("a"), committed(1, "a", number)];
    assert_eq!(
        broken([vec![ingested(1, "a")], life(1)].concat(), &[], &a),
        [],
        "a dead copy beside a committed record"
    );
    assert_eq!(broken(vec![ingested(1, "a")], &a, &a), [], "a dead copy beside a live record");
    let redriven = Observation::Redriven { key: key(1, "a"), stamp: Stamp::NONE };
    let history = [vec![ingested(1, "a"), Observation::Died { key: key(1, "a") }, redriven], life(1)].concat();
    assert_eq!(broken(history, &[], &[]), []);
    let died = || Observation::Died { key: key(1, "a") };
    assert_eq!(broken(vec![ingested(1, "a"), died(), died()], &[], &a), [Invariant::I5], "nothing dies twice");
    assert_eq!(
        broken(vec![ingested(1, "a"), died()], &a, &a),
        [Invariant::I5],
        "it stands again, and nobody redrove it"
    );
    let late = Observation::Redriven { key: key(1, "a"), stamp: Stamp::NONE };
    let late_put = [vec![ingested(1, "a")], life(1), vec![late]].concat();
    assert_eq!(broken(late_put, &a, &[]), [], "a redrive's put that arrives after the delivery");
    let purged =
        vec![ingested(1, "a"), Observation::Died { key: key(1, "a") }, Observation::Purged { key: key(1, "a") }];
    assert_eq!(broken(purged, &[], &[]), []);
}

#[test]
fn numbers_alone_can_show_a_loss() {
    let whole = Conservation { ingested: 10, committed: 5, dead: 2, outstanding: 2, purged: 1 };
    assert_eq!(whole.violation(), None);
    let lost = Conservation { outstanding: 1, ..whole }.violation().unwrap();
    assert_eq!(lost.to_string(), "I5: 10 ingested, but 5 committed + 2 dead + 1 outstanding + 1 purged = 9");
}
