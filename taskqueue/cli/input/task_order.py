"""Parents before children: the order in which the tasks of a file can be staged, or the cycle that there is.

    names ──► those that wait for nothing, in the order of the file ──► those that waited for these only ──► …

Kahn, "Topological sorting of large networks", 1962; among those that could come next, the first of the file does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush


class Cycle(ValueError):
    """Tasks wait for each other.

    Attributes:
        names: of these; each waits for the next, and the last for the first.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(" → ".join([*names, names[0]]))
        self.names = names


def parents_first(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """The names, each after those that it waits for, else in the order that they have.

    Args:
        parents: by name, the names of those that it waits for, all of which are there.

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
    """One of the cycles: whoever goes from a task that has no place to one that it waits for comes round."""
    name = next(name for name, number in missing.items() if number)
    path: dict[str, int] = {}
    while name not in path:
        path[name] = len(path)
        name = next(parent for parent in parents[name] if missing[parent])
    return list(path)[path[name] :]
