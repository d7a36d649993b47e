//! The names of the calls, as they stand in errors, in counters and in fault plans: the ports' method names.

/// [`crate::LeaseStore::read_group`].
pub const READ_GROUP: &str = "read_group";
/// [`crate::LeaseStore::read_lease`].
pub const READ_LEASE: &str = "read_lease";
/// [`crate::LeaseStore::write_lease`].
pub const WRITE_LEASE: &str = "write_lease";
/// [`crate::LeaseStore::write_instance`].
pub const WRITE_INSTANCE: &str = "write_instance";
/// [`crate::Outbox::put`].
pub const PUT: &str = "put";
/// [`crate::Outbox::put_many`].
pub const PUT_MANY: &str = "put_many";
/// [`crate::Outbox::page`].
pub const PAGE: &str = "page";
/// [`crate::Outbox::row`].
pub const ROW: &str = "row";
/// [`crate::Outbox::claim`].
pub const CLAIM: &str = "claim";
/// [`crate::Outbox::hand_back`].
pub const HAND_BACK: &str = "hand_back";
/// [`crate::Outbox::tombstones`].
pub const TOMBSTONES: &str = "tombstones";
/// [`crate::Outbox::write_tombstones`].
pub const WRITE_TOMBSTONES: &str = "write_tombstones";
/// [`crate::Outbox::commit`].
pub const COMMIT: &str = "commit";
/// [`crate::Outbox::kill`], its first half: the dead row.
pub const KILL: &str = "kill";
/// [`crate::Outbox::kill`], its second half: the outstanding row's end.
pub const KILL_DELETE: &str = "kill_delete";
/// [`crate::Outbox::dead_page`].
pub const DEAD_PAGE: &str = "dead_page";
/// [`crate::Outbox::put_redriven`].
pub const PUT_REDRIVEN: &str = "put_redriven";
/// [`crate::Outbox::delete_dead`].
pub const DELETE_DEAD: &str = "delete_dead";
/// [`crate::Outbox::read_fence`].
pub const READ_FENCE: &str = "read_fence";
/// [`crate::Outbox::raise_fence`].
pub const RAISE_FENCE: &str = "raise_fence";
/// [`crate::Queue::send`].
pub const SEND: &str = "send";
/// [`crate::Source::is_enabled`].
pub const IS_ENABLED: &str = "is_enabled";
/// [`crate::Source::set_enabled`].
pub const SET_ENABLED: &str = "set_enabled";
/// [`crate::EventBus::put_event`].
pub const PUT_EVENT: &str = "put_event";
/// [`crate::TableInspection::inspect`].
pub const INSPECT: &str = "inspect";
