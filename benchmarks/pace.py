"""How exactly a pace is kept when there is no end of work: handed out, and allowed, in virtual time.

    python -m benchmarks.pace                      an hour of each pace, the fastest for five minutes: two minutes or so
    python -m benchmarks.pace --seconds 3600       an hour of each, also of the fastest

Allowed are burst + rate * seconds. The worst window is, of all windows of time there are, the one with the most tasks
above burst + rate * its length: 0 is exactly at the limit, and less is below it.
"""

from __future__ import annotations

import argparse
from math import floor, inf
from typing import Final, NamedTuple

from benchmarks.virtual import Line
from taskqueue.core.settings.settings import CoreConfig

HOUR: Final = 3600.0
SHORT: Final = 300.0
"""For the fastest, of which an hour would be millions of turns."""

PACES: Final = ((0.2, 1.0), (1.0, 1.0), (3.0, 1.0), (10.0, 10.0), (50.0, 10.0), (1000.0, 1.0))
"""Rate and burst."""

STOCK: Final = 2_000
HELD_MOST: Final = 500


class Figures(NamedTuple):
    """How a pace was kept; see the module."""

    rate: float
    burst: float
    seconds: float
    handed_out: int
    allowed: int
    worst: float

    @property
    def ratio(self) -> float:
        """Of what was handed out to what was allowed."""
        return self.handed_out / self.allowed


def keep_pace(rate: float, burst: float, seconds: float) -> Figures:
    """Hand out as much as the pace allows, for so long."""
    line = Line(CoreConfig(defaults={"rate": rate, "burst": burst}, projects={"p": {}}), capacity=10_000)
    line.push("p", STOCK)
    line.hello()
    times = [0.0] * line.taken
    while (at := line.next_wake()) <= seconds:
        line.elapsed = max(line.elapsed, at)
        taken = line.taken
        line.turn()
        times += [line.elapsed] * (line.taken - taken)
        if len(line.held) >= HELD_MOST:
            line.push("p", len(line.finish(HELD_MOST)))
        elif line.taken == taken:
            line.hello()
            times += [line.elapsed] * (line.taken - taken)
    return Figures(rate, burst, seconds, len(times), floor(burst + rate * seconds), worst_window(times, rate, burst))


def worst_window(times: list[float], rate: float, burst: float) -> float:
    """Tasks above what is allowed in the worst of all windows; ``times`` of the hand-outs, in order.

    From hand-out i to hand-out j there are j - i + 1 tasks; that is at most burst + rate * (t_j - t_i) for all i <= j
    if no k - rate * t_k is more than burst - 1 above the least of those before it.
    """
    least, worst = inf, -inf
    for number, at in enumerate(times):
        height = number - rate * at
        least = min(least, height)
        worst = max(worst, height - least + 1 - burst)
    return worst


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="of each pace")
    options = parser.parse_args()
    print(
        f"{'rate':>7} {'burst':>6} {'seconds':>8} {'handed out':>11} {'allowed':>9} {'ratio':>9} {'worst window':>13}"
    )
    for rate, burst in PACES:
        seconds = options.seconds or (HOUR if rate < 1000 else SHORT)
        got = keep_pace(rate, burst, seconds)
        print(
            f"{rate:>7g} {burst:>6g} {seconds:>8g} {got.handed_out:>11} {got.allowed:>9} {got.ratio:>9.6f}"
            f" {got.worst:>13.9f}"
        )


if __name__ == "__main__":
    main()
