//! What the lease function can be asked.

use fencepost_protocol::ids::{FencingToken, Malformed};
use fencepost_protocol::lease::{Carried, LoopId, StepDownReason};
use fencepost_protocol::object;
use fencepost_runtime::input;
use serde::Deserialize;
use serde_json::Value;

/// One request. Unknown commands and unknown fields are refused by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// One step of the loop.
    Tick {
        /// Which loop.
        #[serde(rename = "loop")]
        me_loop: LoopId,
        /// What the previous tick of this loop put out; absent or null at first.
        #[serde(default, deserialize_with = "object::optional")]
        carried: Option<Carried>,
        /// Has everything that earlier ticks of this loop put out reached the event bus?
        #[serde(default = "yes")]
        delivered: bool,
    },
    /// A planned handover.
    StepDown {
        /// Why; a step-down unless said otherwise.
        #[serde(default = "asked_for")]
        reason: StepDownReason,
    },
    /// The stack is being deleted: step down and wait for the release, as far as the time limit allows.
    Release {},
    /// End the abstention.
    Resume {},
    /// The takeover workflow ended.
    TakeoverFinished {
        /// Whose takeover.
        token: FencingToken,
        /// Which try.
        #[serde(rename = "try")]
        try_number: u32,
        /// Did it succeed?
        succeeded: bool,
    },
    /// Switch a gated source.
    Source {
        /// On or off.
        enabled: bool,
    },
    /// Show the lease.
    Status {},
    /// Check the settings.
    Validate {},
}

const fn yes() -> bool {
    true
}

const fn asked_for() -> StepDownReason {
    StepDownReason::StepDown
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Malformed`] that names the field.
    pub fn parse(input: Value) -> Result<Self, Malformed> {
        input::command(input)
    }
}
