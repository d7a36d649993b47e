//! The records as items: one file per kind, each with the same three functions.
//!
//! - `key` says where a record is, `encode` makes its whole item, `decode` reads one. Attribute names are constants there.
//! - What `encode` writes, `decode` reads back exactly (durations in whole milliseconds).
//! - `decode` believes nothing: a missing field, a wrong type, a value out of range, an impossible combination or an unknown
//!   schema is a [`Damage`] that names the field and what would fit. It never panics. Attributes that it does not know are
//!   ignored.
//!
//! | table | partition | sort | kind |
//! |---|---|---|---|
//! | lease | `<lease>` | `LEASE` | [`lease`] |
//! | lease | `<lease>` | `INSTANCE#<name>#<stack>` | [`instance`] |
//! | outbox | `<lease>#<nnnn>` | `<13 digits>#<message id>` | [`outstanding`] |
//! | outbox | `dead#<lease>#<nnnn>` | `<13 digits>#<message id>` | [`dead`] |
//! | outbox | `sent#<message id>` | `sent` | [`tombstone`] |
//! | outbox | `fence#<lease>` | `fence` | [`fence`] |
//!
//! What must stay out: conditions and requests (the adapters'), and every decision about what a record means.

use fencepost_protocol::outbox::{Damage, Slot};

use crate::item::Item;

pub mod dead;
pub mod fence;
mod fields;
mod gather;
pub mod instance;
pub mod lease;
pub mod outstanding;
mod table;
pub mod tombstone;

#[cfg(test)]
mod tests;

pub use fields::SCHEMA_ATTRIBUTE;
pub use gather::{gather_group, gather_page};
pub use table::Table;

/// What stands at a place, given the item that was found there, if any, and its kind's `decode`.
pub fn slot<T>(item: Option<&Item>, decode: impl FnOnce(&Item) -> Result<T, Damage>) -> Slot<T> {
    match item.map(decode) {
        None => Slot::Absent,
        Some(Ok(record)) => Slot::Present(record),
        Some(Err(damage)) => Slot::Damaged(damage),
    }
}
