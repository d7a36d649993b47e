//! The simulator itself: what it promises to everything that is written on it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fencepost_storage::operation;
use fencepost_tests::simulation::{Act, CallFault, Message, Options, Sometimes, World, parse_faults, run};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn messages_flow_and_nothing_is_broken() {
    let mut world = World::new(Options::new(7));
    world.run_for(seconds(3));
    let leader = world.leader().unwrap();
    assert_eq!(leader.token, 1);
    let mut ids = world.publish_many("pump-1", 20);
    ids.push(world.publish(&Message::new("camera-2", vec![0x00, 0xff])));
    ids.push(world.publish(&Message::new("door-3", Vec::new())));
    world.run_for(seconds(20));
    let mut delivered = world.delivered();
    delivered.sort();
    assert_eq!(delivered, ids);
    let verdict = world.finish();
    verdict.assert_sound(&world);
    assert_eq!((verdict.published, verdict.delivered, verdict.conservation.committed), (22, 22, 22));
    world.run_for(seconds(60));
    assert!(world.ticks("east") > 90 && world.ticks("west") > 90, "the second loop ticks beside the first");
}

#[test]
fn a_killed_leader_is_followed_within_the_bound() {
    let mut world = World::new(Options::new(8));
    world.run_for(seconds(30));
    let first = world.leader().unwrap();
    world.publish_many("pump-1", 5);
    world.act(Act::Kill { instance: first.instance.clone() });
    let killed = world.now();
    assert!(world.run_until_that(seconds(40), |world| world.leader().is_some_and(|leader| leader.token == 2)));
    let took = world.now() - killed;
    assert!(took > seconds(8) && took < seconds(17), "{took:?}");
    assert_ne!(world.leader().unwrap().instance, first.instance);
    let verdict = world.finish();
    verdict.assert_sound(&world);
    assert_eq!(verdict.conservation.committed, 5);
    assert_eq!(world.reached().count(Sometimes::Takeover), 1);
    assert_eq!(world.reached().count(Sometimes::TakeoverCompleted), 2, "of the first acquisition and of the seizure");
}

#[test]
fn a_fault_at_an_exact_call_is_met_there_and_written_down() {
    let mut world = World::new(Options::new(9));
    world.run_for(seconds(3));
    let leader = world.leader().unwrap().instance;
    world.fault_next(&leader, operation::COMMIT, CallFault::CrashAfter);
    world.publish(&Message::new("pump-1", b"x".to_vec()));
    world.run_for(seconds(5));
    assert_eq!(world.reached().count(Sometimes::Crash), 1);
    let [met] = world.met().try_into().unwrap();
    assert_eq!(parse_faults(&met.to_string()), Ok(vec![met]));
    world.finish().assert_sound(&world);
}

#[test]
fn a_frozen_holder_steps_down_first() {
    let mut world = World::new(Options::new(10));
    world.run_for(seconds(30));
    let first = world.leader().unwrap().instance;
    world.act(Act::Freeze { instance: first.clone() });
    world.run_for(seconds(40));
    assert_ne!(world.leader().unwrap().instance, first);
    let ticks = world.ticks(&first);
    world.run_for(seconds(5));
    assert_eq!(world.ticks(&first), ticks, "nothing of a frozen instance runs");
    world.act(Act::Thaw { instance: first.clone() });
    world.run_for(seconds(5));
    assert!(world.ticks(&first) > ticks);
    world.finish().assert_sound(&world);
}

#[test]
fn the_same_seed_makes_the_same_history_and_another_seed_another() {
    let (first, second, other) = (run(42, None), run(42, None), run(43, None));
    assert_eq!(first.met, second.met);
    assert!(first.history == second.history, "seed 42 made two histories");
    assert!(first.history != other.history);
    assert!(!first.history.lines().is_empty());
}

#[test]
fn the_faults_that_a_run_met_make_it_again() {
    let drawn = run(44, None);
    assert!(!drawn.met.is_empty());
    let listed = run(44, Some(&drawn.met));
    assert_eq!(drawn.met, listed.met);
    assert!(drawn.history == listed.history);
}

#[test]
fn a_gated_source_follows_the_lease() {
    let mut world = World::new(Options::new(11).setting("SOURCE", "gated"));
    world.run_for(seconds(10));
    let first = world.leader().unwrap().instance;
    let other = if first == "east" { "west" } else { "east" };
    assert!(world.is_source_enabled(&first) && !world.is_source_enabled(other));
    world.publish_many("pump-1", 5);
    world.act(Act::Kill { instance: first });
    assert!(world.run_until_that(seconds(40), |world| world.is_source_enabled(other)));
    assert_eq!(world.leader().unwrap().instance, other);
    world.finish().assert_sound(&world);
    assert!(world.reached().count(Sometimes::SourceDisconnected) > 0);
}

fn simulate(arguments: &[&str]) -> Output {
    simulate_into(Stdio::piped(), arguments)
}

#[expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
fn simulate_into(stdout: Stdio, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).stdout(stdout).output().unwrap()
}

/// Replays seed 3 with these faults; `name` is the file's.
#[expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
fn replay(name: &str, faults: &str) -> (Option<i32>, String) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, faults).unwrap();
    let output = simulate(&["replay", "--seed", "3", "--faults", file.to_str().unwrap()]);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused: [(&[&str], &str); 7] = [
        (&["--seeds", "0"], "--seeds"),
        (&["--threads", "0"], "1..=256"),
        (&["--threads", "18446744073709551615"], "1..=256"),
        (&["soak", "--threads", "0"], "1..=256"),
        (&["soak", "--threads", "257"], "1..=256"),
        (&["soak", "--minutes", "0"], "1..=100000"),
        (&["soak", "--minutes", "307445734561825861"], "1..=100000"),
    ];
    for (arguments, words) in refused {
        let output = simulate(arguments);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {problem}");
        assert!(problem.contains(words), "{arguments:?}: {problem}");
    }
}

#[test]
fn arguments_of_a_batch_are_refused_before_a_command() {
    for arguments in [&["--seeds", "5000", "replay", "--seed", "3"][..], &["--json", "replay", "--seed", "3"]] {
        let output = simulate(arguments);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {problem}");
        assert!(problem.contains("cannot be used with") && problem.contains(arguments[0]), "{arguments:?}: {problem}");
    }
}

#[test]
fn faults_at_an_instance_that_is_not_there_are_refused() {
    let kill = r#"{"at":{"ms":5,"act":{"kill":{"instance":"nowhere"}}}}"#;
    let begin = r#"{"at":{"ms":5,"act":{"begin":{"outage":"queue","instance":"nowhere","failure":"denied"}}}}"#;
    let call = r#"{"call":{"instance":"nowhere","operation":"commit","number":1,"fault":"denied"}}"#;
    for fault in [kill, begin, call] {
        let (code, problem) = replay("nowhere", &format!("\n{fault}\n"));
        assert_eq!(code, Some(2), "{fault}: {problem}");
        assert!(problem.contains(r#"line 2: there is no instance "nowhere"; there are east, west"#), "{problem}");
    }
}

#[test]
fn listed_faults_that_never_happen_are_named() {
    let happens = r#"{"at":{"ms":50000,"act":{"kill":{"instance":"east"}}}}"#;
    let never = [
        r#"{"call":{"instance":"east","operation":"no_such","number":1,"fault":"denied"}}"#,
        r#"{"call":{"instance":"east","operation":"read_lease","number":0,"fault":"denied"}}"#,
        r#"{"at":{"ms":18446744073709551615,"act":{"kill":{"instance":"east"}}}}"#,
    ];
    let (code, problem) = replay("never", &[&[happens], &never[..]].concat().join("\n"));
    assert_eq!(code, Some(2), "{problem}");
    never.iter().for_each(|fault| assert!(problem.contains(&format!("never happened: {fault}\n")), "{problem}"));
    assert!(problem.contains("3 of 4 listed faults never happened") && !problem.contains(happens), "{problem}");
    assert_eq!(replay("twice", &format!("{happens}\n{happens}")), (Some(0), String::new()), "both happen");
}

#[test]
fn the_faults_that_a_run_met_all_happen_again() {
    let met: Vec<String> = run(3, None).met.iter().map(ToString::to_string).collect();
    assert!(!met.is_empty());
    assert_eq!(replay("met", &met.join("\n")), (Some(0), String::new()));
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    for arguments in [&["replay", "--seed", "3"][..], &["--seeds", "1", "--reach-anything"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = simulate_into(full.into(), arguments);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {problem}");
        assert!(problem.contains("stdout cannot be written"), "{arguments:?}: {problem}");
    }
}

#[test]
fn a_batch_that_reached_too_little_fails_and_says_what() {
    let output = simulate(&["--seeds", "1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("never reached in 1 seeds: "));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((figures["seeds"].as_u64(), figures["runs_broken"].as_u64()), (Some(1), Some(0)));
    assert!(figures["cpu_seconds_a_seed"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert_eq!(simulate(&["--seeds", "1", "--reach-anything"]).status.code(), Some(0));
}
