"""Every case, with what is broken for it. A case without a line here is itself a finding; one with an empty line only prepares."""

from breaks import Break
from emulator import EAST, WEST
from sabotage import (
    abstention_forgotten, begun_under_the_limit, body_altered, bus_deaf, error_action_astray, failure_destination_missing,
    failures_unread, handed_back_early, lease_function_gone, lease_lost_meanwhile, lease_taken_from_the_row,
    lifecycle_broken, limit_raised, limit_unchanged, loops_ended, lost_on_the_way, machine_does_nothing, never_given_back, ordinary_tables,
    refused_for_good, rule_disabled, schedule_disabled, schedule_goes_on, second_acquisition, sent_twice, spoiled, standby_gone,
    tables_deleted, unchecked, update_without_effect, without_output,
)

BREAKS: dict[str, list[Break]] = {
    "deploy east": [
        Break("the compute stack does not put out its lease function",
              r"fencepost-east in us-east-1 is ROLLBACK_COMPLETE, not CREATE_COMPLETE:\n.*Outputs\.LeaseFunctionArn",
              spoiled("ComputeStack", without_output("LeaseFunctionArn"), (EAST, "fencepost-east"))),
    ],
    "stored without a holder": [Break("the topic rule is disabled", r"five rows are stored: not within 20s", rule_disabled)],
    "wrong settings refused": [
        Break("the check sees other durations than the functions get", r"\{'LeaseTtl': '3s'\} was deployed$", spoiled("ComputeStack", unchecked, (EAST, "refused-0"))),
    ],
    "unfit tables refused": [Break("the tables are ordinary ones", r"eventual tables: the reason is another: ", ordinary_tables)],
    "lease by schedule": [Break("the schedule is disabled", r"a schedule's tick takes the lease: not within 100s", schedule_disabled)],
    "the schedule falls silent": [Break("the schedule goes on", r"the schedule of us-east-1 is not silent: \{'ENABLED'\}$", schedule_goes_on)],
    "exact bytes": [Break("one byte changes on its way to the queue", r"not arrived within 90s: telemetry/text .*, 2 in all$", body_altered)],
    "case_16 schedule fires twice": [Break("the second start takes the lease anew", r"the token went from \d+ to \d+$", second_acquisition)],
    "deploy west": [
        Break("the workflow stack does not put out its drain",
              r"fencepost-west in eu-west-1 is ROLLBACK_COMPLETE, not CREATE_COMPLETE:\n.*Outputs\.DrainStateMachineArn",
              spoiled("WorkflowStack", without_output("DrainStateMachineArn"), (WEST, "fencepost-west"))),
    ],
    "queue down": [Break("the queue refuses the entry for good", r"a record died of an outage$", refused_for_good)],
    "case_32 limit of three seconds": [
        # The drainer that the stream wakes may be done before anybody has looked.
        Break("the limit stays what it was", r"(three rows are stored: not within 20s|the rows are set\(\), not untouched$)", limit_unchanged),
        # A send of unknown outcome costs no attempt.
        Break("it begins what it cannot finish", r"the rows are \{\('claimed', '0'\)\}, not untouched$", begun_under_the_limit),
    ],
    "drainer killed before the send": [Break("its rows are handed back at once", r"claimed anew after [\d.]+s, before stale_claim_duration$", handed_back_early)],
    "drainer killed after the send": [Break("its rows are handed back at once", r"sent again after [\d.]+s, before stale_claim_duration$", handed_back_early)],
    "case_37 ingest fails": [Break("the failure destination is missing", r"the failed invocation is in the queue of failures: not within 90s", failure_destination_missing)],
    "case_37 error action": [Break("the error action writes to a missing queue", r"the rows are stored or already sent: not within 60s", error_action_astray)],
    "from the queue of failures": [Break("ingest does not read that queue", r"the rows are stored or already sent: not within 60s", failures_unread)],
    "case_41 no gap in ticks": [Break("the loop loses the lease meanwhile", r"the token went from \d+ to \d+$", lease_lost_meanwhile)],
    "one leads, one stands by": [
        Break("the other ticks no more", r"west goes on ticking: not within 85\.5s", loops_ended(lambda world: world.stacks["west"])),
    ],
    "takeover": [
        Break("nobody stands by", r"(east|west) leads: not within 26\.5s", standby_gone),
        Break("the row is cleared at the leader's death", r"taken over [\d.]+s after the last renewal, before its TTL$", lease_taken_from_the_row),
    ],
    "abstention": [Break("the row forgets who released it", r"it took the lease again [\d.]+s after its release, inside its TTL$", abstention_forgotten)],
    "the old leader comes back": [Break("its functions do not", r"(east|west) answers: not within 20s", never_given_back)],
    "too large for the queue": [Break("the destination takes it after all", r"it is dead: not within 75s", limit_raised)],
    "step-down": [
        Break("nobody stands by", r"(east|west) leads: not within 30s", lease_function_gone(lambda world: world.other(world.leader()))),
        Break("nobody is told", r"the event Step Down Requested of token \d+: not within 10s", bus_deaf),
    ],
    "update keeps data": [Break("the update reaches no function", r"east: the alias of Ingest still has the old settings: 65536$", update_without_effect)],
    "redrive": [Break("the redrive machine does nothing", r"the redrive says \{", machine_does_nothing("Redrive"))],
    "conservation": [
        Break("one message stands in the queue twice", r"2 doubles, of which 1 were made on purpose$", sent_twice),
        Break("one message is lost", r"not arrived within 75s: telemetry/lost ", lost_on_the_way),
    ],
    "deletion releases": [Break("the lifecycle function fails", r"east leads: not within 10s", lifecycle_broken, final=True)],
    "tables outlive": [Break("the tables go with the stack", r"LeaseTableName is gone$", tables_deleted, final=True)],
}
