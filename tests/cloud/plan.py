"""What a run does, in order: which cases, what each certifies, what it costs and leaves behind, and what no run can show."""

from dataclasses import dataclass

import account_cases
import flow_cases
import lease_cases
from world import World

# Roughly what each message costs in requests, for the dry run's estimate.
MESSAGES = 30


@dataclass
class Case:
    """One case of the plan."""

    name: str
    seconds: float
    work: object
    certifies: str
    needs: tuple = ()
    # It stops functions, or leaves the group without a leader for a while.
    destructive: bool = False


CANNOT = (
    "a record that dies and comes back: it takes a smaller RequestBytesMax and an update of the stack; see tests/run emulator",
    "a drainer that is killed between claim and commit: an account has no such means; see tests/run crash and emulator",
    "an invocation of ingest that fails, and the rule's own error action: its outcome is put into the queue of failures by hand",
    "an update and the deletion of the stack: they are yours to make",
    "that the next canary is rolled back by an alarm",
    "a region that fails as a whole",
)


def cases(world: World, destructive: bool) -> list[Case]:
    """The plan for these stacks."""
    timing, two = world.timing, len(world.stacks) == 2
    found = [
        Case("settings", 60, account_cases.settings_are_valid, "every instance's functions run and accept their settings"),
        Case("tables", 60, account_cases.tables_are_safe, "the tables are kept, and forget only tombstones"),
        Case("ways of failure", 60, account_cases.failures_have_a_way, "what fails before it is stored has a way back"),
        Case("somebody leads", 400, lease_cases.leads, "the schedules drive the lease, and a takeover finishes"),
        Case("renewal", timing.ttl, lease_cases.renews, "the holder renews in time, under one token", ("somebody leads",)),
        Case("exact bytes", 200, flow_cases.exact_bytes, "every kind of payload arrives byte for byte, over HTTPS and MQTT", ("somebody leads",)),
        Case("from the queue of failures", 200, flow_cases.from_the_queue_of_failures, "what failed is stored and delivered after all", ("somebody leads",)),
        Case("redrive answers", 120 + 2 * world.shards, flow_cases.redrive_answers, "the redrive goes through every shard", ("somebody leads",)),
        Case("metrics", 700, account_cases.metrics_arrive, "the metrics that alarms stand on arrive", ("exact bytes",)),
        # Before the handovers: those may ring LeaseFlapping.
        Case("alarms", 60, account_cases.alarms_are_quiet, "every alarm exists, and none rings"),
    ]
    if two:
        found += [
            Case("one leads, one stands by", 150, lease_cases.both_tick, "never two leaders, and a standby that ticks", ("somebody leads",)),
            Case("step-down", 200, lease_cases.step_down, f"a planned handover within {timing.idle_handover_bound:g}s (P7)", ("one leads, one stands by",)),
        ]
    if two and destructive:
        found += [
            Case("takeover", timing.takeover_bound + 400, lease_cases.takeover, f"a crash is taken over within {timing.takeover_bound:g}s, not before the TTL (P6)",
                 ("one leads, one stands by",), True),
            Case("abstention", timing.ttl + 250, lease_cases.abstention, "a leader that stepped down leaves the lease alone for one TTL", ("takeover",), True),
            Case("the old leader comes back", 300, lease_cases.comes_back, "a former leader stands by", ("takeover",), True),
        ]
    elif destructive:
        found.append(Case("abstention", timing.ttl + 250, lease_cases.abstention, "a leader that stepped down leaves the lease alone for one TTL", ("somebody leads",), True))
    return found + [Case("conservation", 250, flow_cases.conservation, "everything published arrived once, and nothing is left (P1, P2)", ("somebody leads",))]


def not_certified(world: World, destructive: bool) -> list[str]:
    """What this run leaves open, in words."""
    more = []
    if len(world.stacks) == 1:
        more.append("handover and takeover: give a second stack (--second-stack NAME --second-region REGION)")
    if not destructive:
        more.append("takeover and abstention: they stop functions; give --destructive")
    return more + list(CANNOT)


def described(world: World, plan: list[Case], destructive: bool) -> list[str]:
    """The dry run's lines."""
    usual = {"somebody leads": 60, "renewal": world.timing.ttl / 3, "exact bytes": 20, "from the queue of failures": 20, "metrics": 120, "step-down": 30,
             "takeover": world.timing.takeover_bound + 30, "abstention": world.timing.ttl + 30, "the old leader comes back": 60}
    minutes = sum(usual.get(case.name, 10) for case in plan) / 60
    stacks = ", ".join(f"{one.name} in {one.stack.region} (instance {one.stack.name})" for one in world.found)
    lines = [f"stacks: {stacks}; lease {world.lease}; topic filter {world.topic_filter}", "would run:"]
    lines += [f"  {case.name}: {case.certifies}{'   [destructive]' if case.destructive else ''}" for case in plan]
    lines += [
        f"would publish about {MESSAGES} messages under topics with {world.mark}, and receive and delete them from the destination",
        f"would make, and remove at the end: a rule and a queue {world.mark} in each region",
    ]
    if len(world.stacks) == 2:
        lines.append("would move the lease from one instance to the other")
    if destructive:
        lines.append("would set the reserved concurrency of the leader's lease and drainer functions to 0 and back, or leave nobody leading for one TTL")
    lines += [
        "would leave behind: tombstones of the messages until the dedupe window ends, log lines, metrics, executions, a higher fencing token",
        f"would take about {minutes:.0f} minutes",
        f"cost drivers: about {MESSAGES} IoT messages and as many times four write units; scans of the outbox while something is waited for "
        "(a few thousand read units, more where many tombstones stand); a dozen Standard executions; GetMetricData; far below one US dollar together",
        "no run certifies:",
    ]
    return lines + [f"  {words}" for words in not_certified(world, destructive)]
