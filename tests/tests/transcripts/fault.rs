//! What goes wrong with a call of the script's world.

use fencepost_storage::operation;
use fencepost_tests::simulation::{CallFault, calls};

use super::act::ms;
use super::words::Words;

/// The calls that a script may name.
const CALLS: &[&str] = &[
    operation::READ_GROUP,
    operation::READ_LEASE,
    operation::WRITE_LEASE,
    operation::WRITE_INSTANCE,
    operation::PUT,
    operation::PUT_MANY,
    operation::PAGE,
    operation::ROW,
    operation::CLAIM,
    operation::HAND_BACK,
    operation::TOMBSTONES,
    operation::WRITE_TOMBSTONES,
    operation::COMMIT,
    operation::KILL,
    operation::KILL_DELETE,
    operation::DEAD_PAGE,
    operation::PUT_REDRIVEN,
    operation::DELETE_DEAD,
    operation::READ_FENCE,
    operation::RAISE_FENCE,
    operation::SEND,
    operation::IS_ENABLED,
    operation::SET_ENABLED,
    calls::INVOKE_LEASE,
    calls::INVOKE_DRAINER,
    calls::INVOKE_INGEST,
    calls::PUT_EVENTS,
    calls::START_EXECUTION,
    calls::SCHEDULE_LEASE_CYCLE,
    calls::SCHEDULE_DRAIN,
    calls::STREAM,
    calls::DELIVER,
];

/// Calls that meet a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Whose.
    pub(crate) instance: String,
    /// Which.
    pub(crate) operation: &'static str,
    /// The first of them, counted from the beginning of the run; the next one where it is `None`.
    pub(crate) number: Option<u64>,
    /// How many.
    pub(crate) times: u64,
    /// What happens.
    pub(crate) fault: CallFault,
}

/// Reads `INSTANCE CALL [number N] FAULT [TIME | rows N…] [times N]`.
pub(crate) fn parse(words: &mut Words<'_>) -> Result<Placed, String> {
    let instance = words.instance()?;
    let name = words.word("a call")?;
    let known = CALLS.iter().find(|known| **known == name);
    let operation = known.ok_or_else(|| format!("there is no call `{name}`; there are {}", CALLS.join(", ")))?;
    let number = if words.takes("number") { Some(words.number("the call's number")?) } else { None };
    if number == Some(0) {
        return Err("calls are counted from 1".to_owned());
    }
    let fault = fault(words)?;
    let times = if words.takes("times") { words.number("how many calls")? } else { 1 };
    Ok(Placed { instance, operation, number, times, fault })
}

fn fault(words: &mut Words<'_>) -> Result<CallFault, String> {
    if words.takes("slow") {
        return Ok(CallFault::Slow { ms: ms(words.duration("how slow")?) });
    }
    type OfRows = (&'static str, fn(u32) -> CallFault);
    const OF_ROWS: &[OfRows] = &[
        ("rows_before", |rows| CallFault::RowsBefore { rows }),
        ("rows_after", |rows| CallFault::RowsAfter { rows }),
        ("refused", |rows| CallFault::Refused { rows }),
        ("refused_for_good", |rows| CallFault::RefusedForGood { rows }),
        ("unmentioned", |rows| CallFault::Unmentioned { rows }),
        ("lost", |rows| CallFault::Lost { rows }),
        ("mentioned_twice", |rows| CallFault::MentionedTwice { rows }),
        ("renamed", |rows| CallFault::Renamed { rows }),
    ];
    for (name, make) in OF_ROWS {
        if words.takes(name) {
            return Ok(make(rows(words)?));
        }
    }
    words.named("a fault")
}

/// `rows 0 2`: the rows of a call of many, counted from 0.
fn rows(words: &mut Words<'_>) -> Result<u32, String> {
    if !words.takes("rows") {
        return Err("say which rows of the call, counted from 0: `rows 0 2`".to_owned());
    }
    let mut mask = 0_u32;
    while let Some(row) = words.maybe_number::<u32>() {
        let bit = 1_u32.checked_shl(row).ok_or_else(|| format!("row {row} is beyond the 32 that a fault can name"))?;
        mask |= bit;
    }
    if mask == 0 { Err("`rows` is followed by no row".to_owned()) } else { Ok(mask) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Placed, String> {
        let regions = ["east".to_owned()];
        parse(&mut Words::of(line, &regions))
    }

    #[test]
    fn faults_are_read_by_their_names() {
        let placed = read("east commit number 4 crash_before times 2").unwrap();
        assert_eq!((placed.operation, placed.number, placed.times), ("commit", Some(4), 2));
        assert_eq!(placed.fault, CallFault::CrashBefore);
        assert_eq!(read("east send refused rows 0 2").unwrap().fault, CallFault::Refused { rows: 0b101 });
        let slow = read("east send slow 2s").unwrap();
        assert_eq!((slow.number, slow.times, slow.fault), (None, 1, CallFault::Slow { ms: 2_000 }));
    }

    #[test]
    fn a_wrong_name_is_told_beside_the_right_ones() {
        assert!(read("east sent slow 2s").unwrap_err().contains("write_tombstones"));
        assert!(read("east send crash").unwrap_err().contains("`crash_before`"));
        assert!(read("east send refused 1").unwrap_err().contains("rows 0 2"));
        assert!(read("east send refused rows 32").unwrap_err().contains("row 32"));
        assert!(read("east send number 0 throttled").unwrap_err().contains("counted from 1"));
    }
}
