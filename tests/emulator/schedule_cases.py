"""A schedule that fires too often, and one that does not fire: neither is noticed."""

import time

from cases import check, until
from emulator import EAST
from world import World, schedule_states, set_schedule

# The longest silence of a schedule that fires "every minute": at 00:01, and then at 02:59.
GAP_SECONDS = 178
# The profile's interval, less half its jitter.
RENEW_INTERVAL_LEAST = 5 * 15 / 16


def case_16_schedule_fires_twice(world: World) -> str:
    """Two more loops at one moment: no second token, and no more renewals than one loop makes."""
    leader, token = world.leader(), world.token()
    first, started = world.lease_row(), time.monotonic()
    for _ in range(2):
        world.start(leader, "LeaseCycle")
    # Three renewals later.
    until(30, "renewals go on", lambda: world.token() != token or _renewal(world.lease_row()) >= _renewal(first) + 3)
    count = _renewal(world.lease_row()) - _renewal(first)
    # One is due each interval, and may be made one tick early; one may have been due at the start.
    most = (time.monotonic() - started) / (RENEW_INTERVAL_LEAST - world.timing.tick) + 1
    check(world.owner() == leader.name and world.token() == token, f"the token went from {token} to {world.token()}")
    check(count <= most, f"{count} renewals, where one loop makes {most:.1f} at most")
    return f"{count} renewals under token {token}, one loop makes {most:.1f} at most"


class Gap:
    """Case 41: the leader's schedule is silent for three minutes, while other cases run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since = 0.0
        self._token = 0

    def begins(self, _: World) -> str:
        """Both schedules' last start was a moment ago; from now on there is none."""
        leader = self._world.leader()
        check(leader.region == EAST, f"{leader.name} leads, not the first stack")
        self._token = self._world.token()
        set_schedule(self._world, EAST, "DISABLED")
        states = schedule_states(self._world, EAST)
        check(states == {"DISABLED"}, f"the schedule of {EAST} is not silent: {states}")
        self._since = time.monotonic()
        return f"no loop is started in {EAST} any more; token {self._token}"

    def case_41_no_gap_in_ticks(self, _: World) -> str:
        """The loops that ran have outlasted it: the same holder, the same token, and a lease that is renewed."""
        world = self._world
        while (left := GAP_SECONDS - (time.monotonic() - self._since)) > 0:
            check(world.token() == self._token, f"the token went from {self._token} to {world.token()}")
            time.sleep(min(left, 0.5))
        renewals = _renewal(world.lease_row())
        until(world.timing.ttl, "renewals go on", lambda: _renewal(world.lease_row()) > renewals)
        silent = time.monotonic() - self._since
        set_schedule(world, EAST, "ENABLED")
        check(world.owner() == "east", f"{world.owner()} leads")
        check(world.token() == self._token, f"the token went from {self._token} to {world.token()}")
        return f"{silent:.0f}s without a start, token {self._token} all the while"


def _renewal(row: dict) -> int:
    return int(row["renewal"]["N"])
