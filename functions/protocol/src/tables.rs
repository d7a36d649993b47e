//! What the two tables must be, or the promises do not hold.
//!
//! A lease is a conditional write that everybody sees. An eventually consistent global table takes the same condition in two
//! regions at once and lets the last writer win: two instances are told that they hold one token. Time to live on the wrong
//! attribute, or on the lease table at all, deletes what nobody has delivered, or the evidence of who leads. So a stack is
//! refused before it starts with such tables.
//!
//! What must stay out: how a table is looked at, and how the settings that faults name are spelt where they are set.

use crate::ids::Malformed;

/// The one attribute that may expire an item of the outbox; only tombstones carry it.
pub const EXPIRES_AT: &str = "expires_at";
const LEASE_TABLE: &str = "lease_table";
const OUTBOX_TABLE: &str = "outbox_table";

/// How a table stands in other regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replication {
    /// It does not: a table of one region.
    OneRegion,
    /// A write is seen by every strong read, in whichever region.
    Strong,
    /// Regions agree later; the last writer wins.
    Eventual,
}

/// A table as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableFacts {
    /// Has it the key attributes of the table that it is given as?
    pub has_our_keys: bool,
    /// Where else it stands.
    pub replication: Replication,
    /// The attribute of its time to live; `None` where that is off.
    pub expires_by: Option<String>,
}

/// What the settings take the tables for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableUse {
    /// Topology `global`: each region uses its own replica.
    pub global: bool,
    /// Tombstones are written (`dedupe_window` above 0), and must go some day.
    pub keeps_tombstones: bool,
}

/// Everything that keeps these tables from being used so, each with what to do; empty where they are fit.
pub fn faults(lease: &TableFacts, outbox: &TableFacts, usage: TableUse) -> Vec<Malformed> {
    let mut found = Vec::new();
    found.extend(foreign(LEASE_TABLE, lease, "lease, record"));
    found.extend(unfit_replication(LEASE_TABLE, lease.replication, usage.global));
    if let Some(attribute) = &lease.expires_by {
        found.push(Malformed::new(
            LEASE_TABLE,
            format!(
                "has its time to live on {attribute:?}: a lease row that expires takes the token and the evidence with it; \
                 turn it off"
            ),
        ));
    }
    found.extend(foreign(OUTBOX_TABLE, outbox, "shard, position"));
    found.extend(unfit_replication(OUTBOX_TABLE, outbox.replication, usage.global));
    found.extend(unfit_expiry(outbox.expires_by.as_deref(), usage.keeps_tombstones));
    found
}

fn foreign(name: &str, facts: &TableFacts, keys: &str) -> Option<Malformed> {
    (!facts.has_our_keys).then(|| {
        let problem = format!(
            "has other keys than ({keys}), so it is another table; name the one that a stack of this group made"
        );
        Malformed::new(name, problem)
    })
}

fn unfit_replication(name: &str, replication: Replication, global: bool) -> Option<Malformed> {
    let problem = match (replication, global) {
        (Replication::Eventual, _) => {
            "is an eventually consistent global table: its last writer wins, so two regions could be told that they hold one \
             token; use a table of one region, or a global table with MultiRegionConsistency STRONG"
        }
        (Replication::Strong, false) => {
            "is a strongly consistent global table, which takes no batches and has no time to live; set \
             topology to global"
        }
        (Replication::OneRegion, true) => {
            "is a table of one region, so each region would have a leader of its own; with topology global use a \
             global table with MultiRegionConsistency STRONG, otherwise set single or home"
        }
        (Replication::OneRegion, false) | (Replication::Strong, true) => return None,
    };
    Some(Malformed::new(name, problem))
}

fn unfit_expiry(attribute: Option<&str>, keeps_tombstones: bool) -> Option<Malformed> {
    let problem = match attribute {
        Some(EXPIRES_AT) => return None,
        Some(other) => format!(
            "has its time to live on {other:?}: records that nobody has delivered could expire; it belongs on {EXPIRES_AT:?}"
        ),
        None if keeps_tombstones => format!(
            "has no time to live, so tombstones would stay for ever; turn it on, on {EXPIRES_AT:?}, or set \
             dedupe_window to 0s"
        ),
        None => return None,
    };
    Some(Malformed::new(OUTBOX_TABLE, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(replication: Replication, expires_by: Option<&str>) -> TableFacts {
        TableFacts { has_our_keys: true, replication, expires_by: expires_by.map(str::to_owned) }
    }

    fn said(lease: &TableFacts, outbox: &TableFacts, global: bool, keeps_tombstones: bool) -> Vec<String> {
        faults(lease, outbox, TableUse { global, keeps_tombstones }).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_tables_that_the_stacks_make_are_fit() {
        let regional = table(Replication::OneRegion, None);
        let expiring = table(Replication::OneRegion, Some("expires_at"));
        let strong = table(Replication::Strong, None);
        assert_eq!(said(&regional, &expiring, false, true), [""; 0]);
        assert_eq!(said(&regional, &regional, false, false), [""; 0]);
        assert_eq!(said(&strong, &strong, true, false), [""; 0]);
    }

    #[test]
    fn each_unfit_table_is_refused_by_its_setting_with_what_to_do() {
        use Replication::{Eventual, OneRegion, Strong};
        let sound = |global| if global { table(Strong, None) } else { table(OneRegion, Some("expires_at")) };
        let lease = |global| if global { table(Strong, None) } else { table(OneRegion, None) };
        for (lease_table, outbox_table, global, words) in [
            (table(Eventual, None), sound(true), true, ["lease_table", "STRONG"]),
            (table(Eventual, None), sound(false), false, ["lease_table", "STRONG"]),
            (lease(true), table(Eventual, None), true, ["outbox_table", "last writer wins"]),
            (table(Strong, None), sound(false), false, ["lease_table", "topology to global"]),
            (table(OneRegion, None), sound(true), true, ["lease_table", "table of one region"]),
            (lease(true), table(OneRegion, None), true, ["outbox_table", "table of one region"]),
            (table(OneRegion, Some("ttl")), sound(false), false, ["lease_table", "turn it off"]),
            (table(OneRegion, Some("expires_at")), sound(false), false, ["lease_table", "turn it off"]),
            (lease(false), table(OneRegion, Some("not_before")), false, ["outbox_table", "\"not_before\""]),
            (lease(false), table(OneRegion, None), false, ["outbox_table", "dedupe_window to 0s"]),
        ] {
            let found = said(&lease_table, &outbox_table, global, !global);
            assert_eq!(found.len(), 1, "{lease_table:?} {outbox_table:?} {global}: {found:?}");
            for word in words {
                assert!(found[0].contains(word), "{word} is not in {found:?}");
            }
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let foreign =
            TableFacts { has_our_keys: false, replication: Replication::Eventual, expires_by: Some("x".to_owned()) };
        assert_eq!(said(&foreign, &foreign, true, false).len(), 6);
    }
}
