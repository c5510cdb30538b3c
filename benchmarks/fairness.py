"""How fair the shares are: many unlimited projects with work and one fetcher, in virtual time.

    python -m benchmarks.fairness                       20 projects, 20,000 tasks, a million delayed ones: some minutes
    python -m benchmarks.fairness --delayed 100000      fewer delayed ones

Shown is, of all projects, the one whose part of what was handed out is furthest from its part of the weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from benchmarks.virtual import Line
from taskqueue.core.settings.settings import CoreConfig

TASKS: Final = 20_000
PROJECTS: Final = 20
CAPACITY: Final = 100
STEP: Final = 10
"""Tasks that the fetcher answers for at once."""


class Fair(NamedTuple):
    """How the tasks were shared.

    Attributes:
        parts: of each project, what it got, as a multiple of what its weight is due.
    """

    parts: tuple[float, ...]

    @property
    def worst(self) -> float:
        """How far the worst is from 1."""
        return max(abs(part - 1) for part in self.parts)


def share(weights: Sequence[float], tasks: int, delayed: int = 0, step: int = STEP) -> Fair:
    """Hand out so many tasks of as many projects as there are weights.

    Args:
        delayed: tasks that the first project has besides, none of them due.
        step: tasks that the fetcher answers for at once.
    """
    names = [f"p{index:02}" for index in range(len(weights))]
    layers = {name: {"weight": weight} for name, weight in zip(names, weights, strict=True)}
    line = Line(CoreConfig(defaults={"rate": inf}, projects={**layers}), CAPACITY)
    line.push(names[0], delayed, delay=86_400.0)
    due = {name: tasks * weight / sum(weights) for name, weight in zip(names, weights, strict=True)}
    for name in names:
        line.push(name, int(due[name] * 1.2) + CAPACITY)
    line.hello()
    got = dict.fromkeys(names, 0)
    for _ in range(tasks // step):
        for handed in line.finish(step):
            got[handed.project] += 1
    return Fair(tuple(got[name] / due[name] for name in names))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delayed", type=int, default=1_000_000, help="tasks of one project that are not due")
    options = parser.parse_args()
    equal, mixed = [1.0] * PROJECTS, [1.0 + index % 5 for index in range(PROJECTS)]
    for name, weights, delayed in (
        ("equal weights", equal, 0),
        ("weights of 1 to 5", mixed, 0),
        (f"{options.delayed:,} delayed tasks in the first", equal, options.delayed),
    ):
        fair = share(weights, TASKS, delayed)
        print(f"{name:<40} the first {fair.parts[0]:.4f} of its due, the worst is off by {fair.worst:.2%}")


if __name__ == "__main__":
    main()
