//! Looking at the tables of a stack that is being made or changed, as often as it takes within the time limit.
//!
//! A role that was made a moment ago may be refused for some seconds, so a look that is forbidden is tried again like one that
//! failed in passing. Where the tables cannot be seen the deployment is refused: what nobody saw, nobody vouches for.
//!
//! What must stay out: which tables are fit (the protocol's), and the answer (`custom_resource`).

use std::time::Duration;

use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::tables::TableFacts;
use fencepost_runtime::clock::Clock;
use fencepost_runtime::lambda::Limit;
use fencepost_storage::records::Table;
use fencepost_storage::{StoreError, TableInspection};

use crate::custom_resource::{Outcome, TableCheck};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// Looks at both tables before `limit`, and says what comes of it.
pub(crate) async fn carry_out(
    check: &TableCheck,
    inspection: &dyn TableInspection,
    clock: &dyn Clock,
    limit: &Limit,
) -> Outcome {
    tokio::select! {
        biased;
        outcome = look_until_seen(check, inspection, clock, limit) => outcome,
        () = clock.sleep(limit.remaining(clock.now())) => not_seen("the service does not answer in time"),
    }
}

async fn look_until_seen(
    check: &TableCheck,
    inspection: &dyn TableInspection,
    clock: &dyn Clock,
    limit: &Limit,
) -> Outcome {
    loop {
        let failed = match look(check, inspection).await {
            Ok((lease, outbox)) => return check.conclude(&lease, &outbox),
            Err(failed) => failed,
        };
        let passing = failed.kind.is_transient() || failed.kind == FailureKind::Denied;
        if !passing || !limit.fits(clock.now(), PAUSE) {
            return not_seen(&failed.to_string());
        }
        tracing::warn!(kind = failed.kind.as_str(), "the look at the tables is tried again: {failed}");
        clock.sleep(PAUSE).await;
    }
}

fn not_seen(why: &str) -> Outcome {
    Outcome::Failed(format!("the tables could not be looked at: {why}"))
}

async fn look(check: &TableCheck, inspection: &dyn TableInspection) -> Result<(TableFacts, TableFacts), StoreError> {
    let region = check.tables.region.as_deref();
    let lease = inspection.inspect(Table::Lease, &check.tables.lease, region).await?;
    let outbox = inspection.inspect(Table::Outbox, &check.tables.outbox, region).await?;
    Ok((lease, outbox))
}
