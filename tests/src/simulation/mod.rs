//! The simulator: the shipped handlers and the shipped state machines over the memory stores and queue, in virtual time.
//!
//! One thread, one paused runtime, one root seed. Nothing here reads a real clock or draws a real random number, so the same
//! seed and the same faults make the same history. What stands in for AWS: the memory adapters of `storage` (`server`), the
//! way to them with time-outs, tries and faults (`wire`, `ports`), Lambda, Step Functions, Scheduler and streams (`region`,
//! `life`), the topic rule with its retries (`intake`). Everything that decides is the shipped code.
//!
//! Guarantees: every write that is applied is seen by the observer in the moment in which it becomes true, and judged by
//! [`fencepost_protocol::invariants`]; a fault is data ([`Fault`]), met by chance or placed at an exact call or time; a
//! killed instance is gone at whatever await it stood; a frozen one does nothing, and its monotonic clock stands still.
//!
//! What must stay out: decisions of the bridge, sleeps in real time, anything that depends on the order of a hash.

mod act;
mod book;
mod fault;
mod hand;
mod history;
mod intake;
mod invocation;
mod leadership;
mod ledger;
mod life;
mod observer;
mod options;
mod plan;
mod platform;
mod ports;
mod reached;
mod region;
mod run;
mod server;
mod shrink;
mod site;
mod time;
mod verdict;
mod wire;
mod workload;
mod world;

pub use act::{Act, Damage, Outage};
pub use fault::{CallFault, Fault, parse_faults, parse_faults_of, platform as calls};
pub use fencepost_local::shipped::Machine;
pub use history::{History, Line};
pub use intake::Message;
pub use ledger::Published;
pub use observer::Broken;
pub use options::{LEASE, Options};
pub use plan::Plan;
pub use reached::{Reached, Sometimes};
pub use region::Total;
pub use run::{Report, run};
pub use shrink::shrink;
pub use site::BusEvent;
pub use time::START;
pub use verdict::Verdict;
pub use world::{Leader, World};
