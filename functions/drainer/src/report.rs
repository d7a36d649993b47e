//! Tells the event bus of records that died in a call.
//!
//! One way for every caller: a workflow could put the event of a call that it made, but nobody could of a call that the
//! stream made. A put that failed for the moment is made again, and one whose reply was lost may have been carried out: the
//! bus gets the event at least once, and one of two has the other's `at_ms`. What it never does is fail a drain.
//!
//! It is best effort all the same, and no time is set aside for it. A page begins where its own claims, sends and commits fit
//! into the function's time limit; the report has what the last page left of that, and three seconds at most. After a page that
//! took all its time that may be nothing: then the put is given up as soon as it was begun, and nobody makes it later. To set
//! aside even one put would raise the smallest `drainer_limit` that the settings allow, for something that is told twice anyway:
//! the metric `Dead` goes out before the put, and rings its alarm; the rows stay dead until an operator decides. Where the bus
//! was not told, a line of the log says so, with the event.

use std::pin::pin;
use std::time::Duration;

use fencepost_runtime::lambda::Limit;
use fencepost_storage::{BusEvent, StoreError};
use futures::future::{Either, select};

use crate::DrainerFunction;

/// How long one put may take.
pub const PUT_TIMEOUT: Duration = Duration::from_millis(900);
/// Puts of one event at most.
const TRIES_MAX: u32 = 3;
/// The pause after the first failed put; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest that a call is held up by its report: every try and every pause fits.
const REPORT_TIME_MAX: Duration = Duration::from_secs(3);
const _: () = assert!(
    PUT_TIMEOUT.as_millis() * TRIES_MAX as u128 + PAUSE.as_millis() * ((1 << (TRIES_MAX - 1)) - 1)
        <= REPORT_TIME_MAX.as_millis()
);

impl DrainerFunction {
    /// Puts `event` on the bus, inside what `limit` leaves.
    pub(crate) async fn report(&self, event: &BusEvent, limit: &Limit) {
        let time = limit.remaining(self.clock.now()).min(REPORT_TIME_MAX);
        let (put, over) = (pin!(self.put_event(event)), pin!(self.clock.sleep(time)));
        let problem = match select(put, over).await {
            Either::Left((Ok(()), _)) => return,
            Either::Left((Err(error), _)) => error.to_string(),
            Either::Right(_) => format!("it did not answer in the {time:?} that there were for it"),
        };
        tracing::error!(
            event = event.detail_type,
            detail = event.detail,
            problem,
            "the event bus was not told; the dead rows and the metric Dead tell of them"
        );
    }

    /// Puts `event`, again after a failure that may pass.
    async fn put_event(&self, event: &BusEvent) -> Result<(), StoreError> {
        let mut pause = PAUSE;
        for _ in 1..TRIES_MAX {
            match self.bus.put_event(event).await {
                Err(error) if error.kind.is_transient() => {
                    tracing::warn!(kind = error.kind.as_str(), %error, "an event is put again");
                }
                answered => return answered,
            }
            self.clock.sleep(pause).await;
            pause *= 2;
        }
        self.bus.put_event(event).await
    }
}
