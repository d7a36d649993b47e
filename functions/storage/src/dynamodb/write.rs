//! A conditional write of one item, said once.
//!
//! It can travel in two forms: as a PartiQL statement, up to 25 in a request ([`super::statement`]), or as a call of its own
//! ([`super::expression`]). Both are made from the same value, so the condition is the same in both.

use crate::item::{Item, Key, Value};

/// What to write, and when.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Write {
    /// Put a whole item.
    Put {
        /// The item, key attributes included.
        item: Item,
        /// When.
        when: Condition,
    },
    /// Set and remove attributes of one item.
    Update {
        /// Which item.
        key: Key,
        /// Attributes to set.
        set: Vec<(&'static str, Value)>,
        /// Attributes to remove.
        remove: Vec<&'static str>,
        /// When.
        when: Condition,
    },
    /// Delete one item.
    Delete {
        /// Which item.
        key: Key,
        /// When.
        when: Condition,
    },
}

/// Under which condition a write may happen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    /// No item stands there.
    Absent,
    /// An item stands there and every test holds.
    Holds(Vec<Test>),
}

/// One comparison of an attribute with a value. An attribute that is missing, or of another type, fails it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Test {
    /// The attribute.
    pub(super) attribute: &'static str,
    /// How its value must stand to the given one.
    pub(super) comparison: Comparison,
    /// The given value.
    pub(super) value: Value,
}

/// How an attribute's value must stand to the given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Equal.
    Equal,
    /// Equal or below.
    AtMost,
    /// Below.
    Below,
}

impl Comparison {
    /// The operator, which is the same in both forms.
    pub(super) const fn operator(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::AtMost => "<=",
            Comparison::Below => "<",
        }
    }
}

impl Test {
    /// `attribute` equals `value`.
    pub(super) fn equal(attribute: &'static str, value: Value) -> Self {
        Self { attribute, comparison: Comparison::Equal, value }
    }

    /// `attribute` is at most `value`.
    pub(super) fn at_most(attribute: &'static str, value: Value) -> Self {
        Self { attribute, comparison: Comparison::AtMost, value }
    }

    /// `attribute` is below `value`.
    pub(super) fn below(attribute: &'static str, value: Value) -> Self {
        Self { attribute, comparison: Comparison::Below, value }
    }
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// Done.
    Done,
    /// The condition did not hold; this is the item that stands there, `None` for no item.
    Refused(Option<Item>),
    /// A put found its key taken, and the service does not say by what.
    Taken,
}
