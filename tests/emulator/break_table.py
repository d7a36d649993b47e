"""Every case, with what is broken for it. A case without a line here is itself a finding; one with an empty line only prepares."""

from breaks import Break
from emulator import EAST, WEST
from sabotage import (
    abstention_forgotten, body_altered, error_action_astray, failure_destination_missing, failures_unread,
    handed_back_early, lease_function_gone, lease_lost_meanwhile, lease_taken_from_the_row, lifecycle_broken,
    limit_raised, limit_unchanged, lost_on_the_way, machine_does_nothing, never_given_back, nothing, ordinary_tables,
    refused_for_good, rule_disabled, schedule_disabled, second_acquisition, sent_twice, spoiled, standby_gone,
    tables_deleted, unchecked, update_without_effect, without_output,
)

BREAKS: dict[str, list[Break]] = {
    "deploy east": [
        Break("the compute stack does not put out its lease function", "fencepost-east", spoiled("ComputeStack", without_output("LeaseFunctionArn"), (EAST, "fencepost-east"))),
    ],
    "stored without a holder": [Break("the topic rule is disabled", "five rows are stored", rule_disabled)],
    "wrong settings refused": [
        Break("the check sees other durations than the functions get", "was deployed", spoiled("ComputeStack", unchecked, (EAST, "refused-0"))),
    ],
    "unfit tables refused": [Break("the tables are ordinary ones", "eventual tables: the reason is another", ordinary_tables)],
    "lease by schedule": [Break("the schedule is disabled", "a schedule's tick takes the lease", schedule_disabled)],
    "the schedule falls silent": [],
    "exact bytes": [Break("one byte changes on its way to the queue", "not arrived within", body_altered)],
    "case_16 schedule fires twice": [Break("the second start takes the lease anew", "the token went from", second_acquisition)],
    "deploy west": [
        Break("the workflow stack does not put out its drain", "fencepost-west", spoiled("WorkflowStack", without_output("DrainStateMachineArn"), (WEST, "fencepost-west"))),
    ],
    "queue down": [Break("the queue refuses the entry for good", "died of an outage", refused_for_good)],
    "case_32 limit of three seconds": [Break("the limit stays what it was", "three rows are stored: not within", limit_unchanged)],
    "drainer killed before the send": [Break("its rows are handed back at once", "before stale_claim_duration", handed_back_early)],
    "drainer killed after the send": [Break("its rows are handed back at once", "before stale_claim_duration", handed_back_early)],
    "case_37 ingest fails": [Break("the failure destination is missing", "is in the queue of failures: not within", failure_destination_missing)],
    "case_37 error action": [Break("the error action writes to a missing queue", "stored or already sent", error_action_astray)],
    "from the queue of failures": [Break("ingest does not read that queue", "stored or already sent", failures_unread)],
    "case_41 no gap in ticks": [Break("the loop loses the lease meanwhile", "the token went from", lease_lost_meanwhile)],
    "one leads, one stands by": [
        Break("the lease function of the other is gone", "Invoke operation", lease_function_gone(lambda world: world.stacks["west"])),
    ],
    "takeover": [
        Break("nobody stands by", "leads: not within", standby_gone),
        Break("the row is cleared at the leader's death", "before its TTL", lease_taken_from_the_row),
    ],
    "abstention": [Break("the row forgets who released it", "inside its TTL", abstention_forgotten)],
    "the old leader comes back": [Break("its functions do not", "Invoke operation", never_given_back)],
    "too large for the queue": [Break("the destination takes it after all", "it is dead: not within", limit_raised)],
    "step-down": [Break("nobody stands by", "leads: not within", lease_function_gone(lambda world: world.other(world.leader())))],
    "update keeps data": [Break("the update reaches no function", "still has the old settings", update_without_effect)],
    "redrive": [Break("the redrive machine does nothing", "redriven", machine_does_nothing("Redrive"))],
    "conservation": [
        Break("one message stands in the queue twice", "2 doubles", sent_twice),
        Break("one message is lost", "not arrived within", lost_on_the_way),
    ],
    "deletion releases": [Break("the lifecycle function fails", "east leads: not within", lifecycle_broken, final=True)],
    "tables outlive": [Break("the tables go with the stack", "is gone", tables_deleted, final=True)],
}
