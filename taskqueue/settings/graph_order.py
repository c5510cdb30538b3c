"""Order of a graph's tasks, parents first, or the cycle that makes it impossible; for flow files and cron entries.

    names ──► tasks that wait for nothing, in the given order ──► tasks that waited for these only ──► …

Kahn, "Topological sorting of large networks", 1962; among those that could come next, the given order decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush


class Cycle(ValueError):
    """Tasks of a flow that wait for each other.

    Attributes:
        names: names of the tasks; each waits for the next, and the last for the first.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(" → ".join([*names, names[0]]))
        self.names = names


def parents_first(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """Sort names so that parents come before their children, otherwise in the given order.

    Args:
        parents: names of the parents by name; each parent is a key, too.

    Raises:
        Cycle: there is no such order.
    """
    names = list(parents)
    place = {name: number for number, name in enumerate(names)}
    missing = {name: len(set(its)) for name, its in parents.items()}
    children: dict[str, list[str]] = {name: [] for name in names}
    for name, its in parents.items():
        for parent in dict.fromkeys(its):
            children[parent].append(name)
    free = [place[name] for name, number in missing.items() if not number]
    heapify(free)
    order: list[str] = []
    while free:
        order.append(names[heappop(free)])
        for child in children[order[-1]]:
            missing[child] -= 1
            if not missing[child]:
                heappush(free, place[child])
    if len(order) < len(names):
        raise Cycle(_cycle(parents, missing))
    return order


def _cycle(parents: Mapping[str, Sequence[str]], missing: Mapping[str, int]) -> list[str]:
    """Find a cycle: following parents from a task that has no place in the order leads back to it."""
    name = next(name for name, number in missing.items() if number)
    path: dict[str, int] = {}
    while name not in path:
        path[name] = len(path)
        name = next(parent for parent in parents[name] if missing[parent])
    return list(path)[path[name] :]
