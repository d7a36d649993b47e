//! What a script does to the world: the simulator's acts by their names.

use std::time::Duration;

use fencepost_tests::simulation::Act;

use super::words::Words;

/// Reads an act that begins with `word`; `None` where no act is called so.
pub(crate) fn parse(word: &str, words: &mut Words<'_>) -> Result<Option<Act>, String> {
    let act = match word {
        "kill" => Act::Kill { instance: words.instance()? },
        "start" => Act::Start { instance: words.instance()? },
        "freeze" => Act::Freeze { instance: words.instance()? },
        "thaw" => Act::Thaw { instance: words.instance()? },
        "set_clock_ahead" => Act::StepClock { instance: words.instance()?, by_ms: signed_ms(words)? },
        "set_clock_back" => Act::StepClock { instance: words.instance()?, by_ms: -signed_ms(words)? },
        "drift_clock" => Act::DriftClock { instance: words.instance()?, ppm: words.number("parts of a million")? },
        "set_clock_right" => Act::SetClockRight { instance: words.instance()? },
        "begin" => Act::Begin {
            outage: words.named("an outage")?,
            failure: words.named("how calls fail")?,
            instance: words.maybe_instance()?,
        },
        "end" => Act::End { outage: words.named("an outage")?, instance: words.maybe_instance()? },
        "step_down" => Act::StepDown { instance: words.instance()? },
        "resume" => Act::Resume { instance: words.instance()? },
        "release" => Act::Release { instance: words.instance()? },
        "redrive" => Act::Redrive { instance: words.instance()? },
        "start_machine" => Act::StartMachine { instance: words.instance()?, machine: words.named("a machine")? },
        "stop_machine" => Act::StopMachine { instance: words.instance()?, machine: words.named("a machine")? },
        "stop_schedules" => Act::StopSchedules { instance: words.instance()? },
        "start_schedules" => Act::StartSchedules { instance: words.instance()? },
        _ => return by_hand(word, words),
    };
    Ok(Some(act))
}

/// What is changed in the tables by hand.
fn by_hand(word: &str, words: &mut Words<'_>) -> Result<Option<Act>, String> {
    let act = match word {
        "lose_lease_table" => Act::LoseLeaseTable,
        "restore_lease_table" => Act::RestoreLeaseTable { age_ms: ms(words.duration("the copy's age")?) },
        "damage_lease" => Act::DamageLease { damage: words.named("a damage")? },
        "repair_lease" => Act::RepairLease,
        "damage_fence" => Act::DamageFence,
        "repair_fence" => Act::RepairFence,
        "damage_row" => Act::DamageRow { row: words.number("a row, counted from the oldest")? },
        "repair_rows" => Act::RepairRows,
        "forget_deduplication" => Act::ForgetDeduplication,
        _ => return Ok(None),
    };
    Ok(Some(act))
}

fn signed_ms(words: &mut Words<'_>) -> Result<i64, String> {
    let ms = ms(words.duration("by how much")?);
    i64::try_from(ms).map_err(|_| "that is too much".to_owned())
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use fencepost_tests::simulation::{Machine, Outage};

    use super::*;

    fn read(line: &str) -> Result<Option<Act>, String> {
        let regions = ["east".to_owned(), "west".to_owned()];
        let mut words = Words::of(line, &regions);
        let word = words.word("an act").unwrap();
        parse(word, &mut words)
    }

    #[test]
    fn acts_are_read_by_their_names() {
        assert_eq!(read("kill east"), Ok(Some(Act::Kill { instance: "east".to_owned() })));
        let clock = |by_ms| Ok(Some(Act::StepClock { instance: "west".to_owned(), by_ms }));
        assert_eq!((read("set_clock_ahead west 2s"), read("set_clock_back west 2s")), (clock(2_000), clock(-2_000)));
        let machine = Machine::LeaseCycle;
        assert_eq!(
            read("stop_machine west lease_cycle"),
            Ok(Some(Act::StopMachine { instance: "west".to_owned(), machine }))
        );
        assert_eq!(read("end queue"), Ok(Some(Act::End { outage: Outage::Queue, instance: None })));
        assert_eq!(read("shout east"), Ok(None));
    }

    #[test]
    fn a_wrong_name_is_told_beside_the_right_ones() {
        assert!(read("begin quue throttled").unwrap_err().contains("`queue`"));
        assert!(read("begin queue slowly").unwrap_err().contains("`throttled`"));
        assert!(read("freeze north").unwrap_err().contains("east, west"));
    }
}
