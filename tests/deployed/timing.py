"""The durations that the cases measure by, as the protocol's specification states them; the bridge is not asked.

They are read from the stack's parameters: a profile, and what differs from it."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds."""

    ttl: float
    margin: float
    tick: float
    call: float
    grace: float
    stale_claim: float
    drainer_limit: float

    @property
    def takeover_bound(self) -> float:
        """From the last renewal: TTL, margin and two ticks, of which each is the interval and one lease call."""
        return self.ttl + self.margin + 2 * (self.tick + self.call)

    @property
    def telling_bound(self) -> float:
        """From a change of the lease row to its event on the bus: the tick that sees it, one more for a reply that was lost or a bus
        that refused, and the time that the loop gives the put."""
        return 2 * (self.tick + self.call) + PUT_SECONDS

    @property
    def takeover_work_bound(self) -> float:
        """From the acquisition to the end of a takeover that finds a few records: the tick that starts it, the plan, a call for the
        forward pass, the wait for claims to become stale, a call for the settled pass, and the note in the lease row."""
        return self.tick + self.call + 3 * self.drainer_limit + self.stale_claim + self.call

    @property
    def idle_handover_bound(self) -> float:
        """From the request: two ticks."""
        return 2 * (self.tick + self.call)


PROFILES = {
    "durable": Timing(ttl=300, margin=0.5, tick=5, call=5, grace=20, stale_claim=35, drainer_limit=30),
    "fast": Timing(ttl=14, margin=0.5, tick=1, call=2.5, grace=5, stale_claim=20, drainer_limit=10),
}
# What the loop gives a put of events; statemachines/lease_cycle.asl.json.
PUT_SECONDS = 2.0
# A schedule starts a loop each minute, and may be this late.
LOOP_SECONDS, LOOP_LATE_SECONDS = 60, 15
# Renewals in a row that may fail, in the profile durable.
MAX_RENEW_FAILS = 3


def seconds(text: str) -> float:
    """`30s`, `2.5s`, `500ms`, `5m`, `2h`, `1d` in seconds."""
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s|m|h|d)", text).groups()
    return float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}[unit]


def of_parameters(values: dict) -> Timing:
    """The durations of a stack with these parameters. The profile `fast` sets every one; `durable` derives what is not given."""
    given = lambda name, otherwise: seconds(values[name]) if values.get(name) else otherwise
    base = PROFILES[values.get("Profile", "durable")]
    ttl, grace = given("LeaseTtl", base.ttl), given("StepDownGrace", base.grace)
    tick, call, stale_claim = base.tick, base.call, base.stale_claim
    if base is PROFILES["durable"]:
        budget = ttl * 3 / (4 * (int(values.get("MaxRenewFails") or 0) or MAX_RENEW_FAILS))
        interval = given("RenewInterval", (budget - min(budget / 2, 5)) * 8 / 9)
        call = min(max(interval / 2, 0.5), 5)
        tick = float(int(min(interval, ttl / 4, 5)))
        stale_claim = grace + 15
    return Timing(
        ttl=ttl, margin=given("ClockMargin", base.margin), tick=given("TickInterval", tick), call=given("RenewCallTimeout", call),
        grace=grace, stale_claim=given("StaleClaimDuration", stale_claim),
        drainer_limit=float(values.get("DrainerLimitSeconds") or 0) or base.drainer_limit,
    )
