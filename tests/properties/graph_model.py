"""Naive model of tasks that wait for others: dictionaries, in which all effects of an end happen at once.

It gets the outcome of each push, which other tests check, and says the state of every task after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LIVE: Final = ("waiting", "blocked", "processing")
FAILED: Final = ("failed", "cancelled")


class Name(NamedTuple):
    """Identity of a task: project and taskid."""

    project: str
    taskid: str


@dataclass
class Edges:
    """Edges of a task: whether each is satisfied, by parent."""

    policy: str = "fail"
    satisfied: dict[Name, bool] = field(default_factory=dict)
    needed: bool = False

    @property
    def missing(self) -> int:
        """Return the number of unsatisfied edges."""
        return sum(not each for each in self.satisfied.values())

    @property
    def unneeded(self) -> bool:
        """Whether all parents have ended without a failure, of a task that runs only after one."""
        return self.policy == "only" and bool(self.satisfied) and not self.missing and not self.needed


@dataclass
class Node:
    """Known task; ``later`` are the edges that it gets when its lease has ended; ``dropped``: cancelled as unneeded."""

    state: str = "waiting"
    edges: Edges = field(default_factory=Edges)
    later: Edges | None = None
    dropped: bool = False


class Graph:
    """All tasks, and ends whose effects are still to come."""

    def __init__(self) -> None:
        self.nodes: dict[Name, Node] = {}
        self._ends: deque[tuple[str, Name]] = deque()

    def states(self) -> dict[Name, tuple[str, int]]:
        """Return state and number of missing parents of each known task."""
        return {name: (node.state, node.edges.missing) for name, node in self.nodes.items()}

    # ------------------------------------------------------------------------------------ what happens

    def pushed(self, name: Name, outcome: str, parents: Iterable[Name], policy: str) -> None:
        """Apply a push with this outcome."""
        if outcome == "new":
            self.nodes[name] = Node()
        elif outcome not in ("replaced", "restarted", "deferred"):
            return
        node, edges = self.nodes[name], self._make(parents, policy)
        if outcome == "deferred":
            node.later = edges
        else:
            self._wait_for(name, edges)
        self._ends.append(("given", name))

    def handed(self, name: Name) -> None:
        """Lease a task to a fetcher."""
        node = self.nodes[name]
        assert node.state == "waiting", f"{name} was handed out, but it is {node.state}"
        assert not node.edges.missing, f"{name} was handed out before what it waits for"
        node.state = "processing"

    def ended(self, name: Name, state: str) -> None:
        """Apply a fetcher's report: success, failed, or waiting again."""
        node = self.nodes[name]
        self._end(name, state)
        if node.later is not None:
            later, node.later = node.later, None
            self._wait_for(name, later)
            self._ends.append(("given", name))

    def retried(self, name: Name) -> None:
        """Apply a retry by hand."""
        node = self.nodes[name]
        node.state, node.dropped = "blocked" if node.edges.missing else "waiting", False
        if node.edges.policy in ("run", "only"):
            self._ends.append(("given", name))

    def cancelled(self, name: Name) -> None:
        """Apply a cancel, after which the task has the edges of its deferred update."""
        node = self.nodes[name]
        if node.later is not None:
            node.edges, node.later = node.later, None
        self._end(name, "cancelled")

    def cleared(self, project: str) -> None:
        """Forget all live tasks of a project."""
        gone = [name for name, node in self.nodes.items() if name.project == project and node.state in LIVE]
        for name in gone:
            del self.nodes[name]
            self._ends.append(("failed", name))

    def tell(self) -> None:
        """Apply the effects of all ends."""
        while self._ends:
            kind, name = self._ends.popleft()
            if kind == "success":
                self._tell_success(name)
            elif kind == "given":
                self._look_at_parents(name)
            elif not self._is(name, *LIVE, "success"):
                self._tell_failure(name)

    # ------------------------------------------------------------------------------------ what follows

    def _end(self, name: Name, state: str) -> None:
        self.nodes[name].state, self.nodes[name].dropped = state, False
        if state != "waiting":
            self._ends.append((state, name))

    def _is(self, name: Name, *states: str) -> bool:
        return name in self.nodes and self.nodes[name].state in states

    def _make(self, parents: Iterable[Name], policy: str) -> Edges:
        return Edges(policy, {parent: self._is(parent, "success") for parent in parents})

    def _wait_for(self, name: Name, edges: Edges) -> None:
        node = self.nodes[name]
        node.edges = edges
        node.state = "blocked" if edges.missing else "waiting"
        if edges.unneeded:
            self._drop(name)

    def _drop(self, name: Name) -> None:
        self._end(name, "cancelled")
        self.nodes[name].dropped = True

    def _children(self, parent: Name) -> list[tuple[Name, Node, Edges]]:
        """Return the children of a task whose edges to it are not satisfied."""
        return [
            (name, node, edges)
            for name, node in self.nodes.items()
            for edges in (node.edges, node.later)
            if edges is not None and edges.satisfied.get(parent) is False
        ]

    def _tell_success(self, parent: Name) -> None:
        for name, node, edges in self._children(parent):
            self._satisfy(parent, name, node, edges)

    def _tell_failure(self, parent: Name) -> None:
        for name, node, edges in self._children(parent):
            self._fail(parent, name, node, edges)

    def _look_at_parents(self, name: Name) -> None:
        node = self.nodes.get(name)
        if node is None:
            return
        for edges in (node.edges, node.later):
            for parent in list(edges.satisfied if edges is not None else ()):
                if edges is not None and not edges.satisfied[parent] and self._is(parent, *FAILED):
                    self._fail(parent, name, node, edges)

    def _satisfy(self, parent: Name, name: Name, node: Node, edges: Edges) -> None:
        edges.satisfied[parent] = True
        if edges is node.edges and not edges.missing and (node.state in ("blocked", "failed") or node.dropped):
            if edges.unneeded:
                self._drop(name)
            else:
                node.state, node.dropped = "waiting", False

    def _fail(self, parent: Name, name: Name, node: Node, edges: Edges) -> None:
        if edges is node.edges and node.state == "cancelled" and not node.dropped:
            return
        if edges.policy == "run":
            self._satisfy(parent, name, node, edges)
        elif edges.policy == "only":
            edges.needed |= self._is(parent, "failed")
            self._satisfy(parent, name, node, edges)
        elif edges.policy == "fail" and edges is node.edges and node.state == "blocked":
            if parent in self.nodes and self.nodes[parent].dropped:
                self._drop(name)
            else:
                self._end(name, "failed")
