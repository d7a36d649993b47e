//! Random histories of three instances: whatever the order of ticks, commands, faults and clocks, tokens grow, no two
//! instances believe in one token, and no instance believes in itself past its deadline.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Tick(usize),
    TickBefore(usize),
    TickAfter(usize),
    HandOver(usize, bool),
    Resume(usize),
    Pass(u64),
    SetClock(usize, i64),
    LoseLeaseTable,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3usize).prop_map(Step::Tick),
        1 => (0..3usize).prop_map(Step::TickBefore),
        1 => (0..3usize).prop_map(Step::TickAfter),
        1 => (0..3usize, any::<bool>()).prop_map(|(who, busy)| Step::HandOver(who, busy)),
        1 => (0..3usize).prop_map(Step::Resume),
        6 => (100..6_000u64).prop_map(Step::Pass),
        1 => (0..3usize, -20_000..20_000i64).prop_map(|(who, by)| Step::SetClock(who, by)),
        1 => Just(Step::LoseLeaseTable),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn tokens_grow_and_have_one_owner(steps in prop::collection::vec(step(), 1..250)) {
        let mut store = Store::new();
        let mut instances = [
            Instance::new("east", fast()),
            Instance::new("west", fast()),
            Instance::new("north", fast()),
        ];
        let (mut now, mut highest) = (NOON, 0);
        let mut owners: BTreeMap<u64, Identity> = BTreeMap::new();
        for step in steps {
            let (who, fault, command, busy) = match step {
                Step::Tick(who) => (who, Fault::None, None, false),
                Step::TickBefore(who) => (who, Fault::Before(FailureKind::Unavailable), None, false),
                Step::TickAfter(who) => (who, Fault::After(FailureKind::TimedOut), None, false),
                Step::HandOver(who, busy) => (who, Fault::None, Some(Command::StepDown(StepDownReason::StepDown)), busy),
                Step::Resume(who) => (who, Fault::None, Some(Command::Resume), false),
                Step::Pass(ms) => { now += ms; continue; }
                Step::SetClock(who, by) => { instances[who].offset_ms += by; continue; }
                Step::LoseLeaseTable => { store.lease = Slot::Absent; store.instances.clear(); continue; }
            };
            let instance = &mut instances[who];
            let command = command.unwrap_or_else(|| Command::Tick { me_loop: instance.me_loop.clone(), delivered: true });
            let before = store.lease.present().map(|row| (row.token.get(), row.attempt.clone()));
            let ran = instance.run(&mut store, command, now, fault, busy);
            if let Some(row) = store.lease.present() {
                if ran.decision.fence.is_some() && Some(&row.attempt) != before.as_ref().map(|(_, attempt)| attempt) {
                    prop_assert!(row.token.get() > highest, "token {} after {highest}", row.token);
                    highest = row.token.get();
                }
                if let Some(owner) = &row.owner {
                    let known = owners.entry(row.token.get()).or_insert_with(|| owner.clone());
                    prop_assert_eq!(&*known, owner, "one owner for each token");
                }
            }
            if let Standing::Holder { token, .. } = ran.conclusion.standing {
                prop_assert_eq!(owners.get(&token.get()), Some(&instance.rules.me));
                let wall = instance.reading(now).wall;
                prop_assert!(wall < ran.conclusion.deadline.unwrap());
            }
        }
    }

    #[test]
    fn somebody_leads_within_the_bound_while_a_standby_ticks(killed_after in 0u64..60, phase in 0u64..1000) {
        let mut store = Store::new();
        let (mut east, mut west) = (Instance::new("east", fast()), Instance::new("west", fast()));
        for second in 0..=killed_after {
            east.tick(&mut store, NOON + second * 1000);
            west.tick(&mut store, NOON + second * 1000 + phase);
        }
        let confirmed = store.row().confirmed_at.as_ms();
        let bound_ms = 14_000 + 500 + 2_000;
        let mut at = NOON + killed_after * 1000 + phase;
        while store.row().owner.as_ref() == Some(&east.rules.me) {
            at += 1000;
            west.tick(&mut store, at);
            prop_assert!(at <= confirmed + bound_ms, "not seized {}ms after the last renewal", at - confirmed);
        }
    }
}
