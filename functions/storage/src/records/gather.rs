//! From the items that a query returned to what the ports answer.

use fencepost_protocol::ids::{Malformed, Position};
use fencepost_protocol::lease::GroupRecords;
use fencepost_protocol::outbox::{Damage, Slot};

use super::{Table, instance, lease, slot};
use crate::item::Item;
use crate::ports::Page;

/// The records of one group, from all its items in key order.
///
/// A sort key that belongs to no kind of ours, or names no possible instance, is passed over: it can be nobody's own row, and
/// nothing is ever written there.
pub fn gather_group(items: &[Item]) -> GroupRecords {
    let mut group = GroupRecords { lease: Slot::Absent, instances: Vec::new() };
    for item in items {
        let Some(key) = Table::Lease.key_of(item) else { continue };
        if key.sort == lease::RECORD {
            group.lease = slot(Some(item), lease::decode);
        } else if let Ok(identity) = instance::parse_sort(&key.sort) {
            group.instances.push((identity, slot(Some(item), instance::decode)));
        }
    }
    group
}

/// A page of rows, from a query's items in key order, and whether the query says that `more` may follow.
///
/// Items whose sort key is no position go to [`Page::strays`]. Where `more` may follow but no item has a position, `next` is
/// `None` all the same: the caller has no cursor to give out and must go on reading by itself ([`Page::rows`] is empty).
pub fn gather_page<T>(items: &[Item], more: bool, decode: impl Fn(&Item) -> Result<T, Damage>) -> Page<T> {
    let mut page = Page { rows: Vec::new(), next: None, strays: Vec::new() };
    for item in items {
        match position_of(item) {
            Ok(position) => page.rows.push((position, slot(Some(item), &decode))),
            Err(malformed) => {
                let record = Table::Outbox.describe("outbox item", item);
                page.strays.push(Damage { record, malformed, newer_schema: false });
            }
        }
    }
    if more {
        page.next = page.rows.last().map(|(position, _)| position.clone());
    }
    page
}

fn position_of(item: &Item) -> Result<Position, Malformed> {
    let field = Table::Outbox.sort_attribute();
    let key = Table::Outbox.key_of(item).ok_or_else(|| Malformed::new(field, "is missing or no text"))?;
    Position::parse(&key.sort)
}
