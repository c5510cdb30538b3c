"""Laws of the body and settings that one attempt at a task leaves to the next, and of its new tasks and their jobs.

B1   each attempt has the latest body, of a push that counted, even if a cancel ended the lease that it waited for, or
     of the retry before it; a retry keeps the task's seq, applies its own priority, and uses up a retry if and only if
     it says so, or says nothing and has no ``retry_after``
B2   the new tasks of a report come with its end, or with its part, or not at all
B3   a task has the job of the push that described it last; a new task of a report that names none, that of its origin

Fetchers show the bodies; the rest is seen in the writes. Facts that can't be seen from outside, such as the order of
two events in one turn, are not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.msgpack import decode

from taskqueue.core.model.task import FAILED, LIVE, PROCESSING, Task
from taskqueue.protocol.host_verdicts import THROTTLES
from taskqueue.protocol.values import NewTask
from tests.simulation.truth import Held, Name, Truth
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.laws import Round

Message = dict[str, Any]

DESCRIBES: Final = ("new", "replaced", "restarted")
"""Outcomes of a push after which the task has its body."""

UNKNOWN: Final = object()


class Failure(NamedTuple):
    """Failure that counted, by its report; the task before it, and the states that it may have since."""

    item: Message
    was: Held
    may_be: frozenset[str]


class Attempts:
    """Judge of what attempts leave to the next ones."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._journal = truth.journal
        self._failed: dict[Name, Failure] = {}
        self._described: set[Name] = set()

    def begin(self) -> None:
        """Begin a turn."""
        self._failed.clear()
        self._described.clear()

    # ------------------------------------------------------------------------------------ what is heard

    def job_of(self, name: Name) -> Any:
        """Return the job of a task; ``UNKNOWN`` if it can't be seen."""
        return self._truth.jobs.get(name, UNKNOWN)

    def pushed(self, name: Name, outcome: str, item: Message, inherited: Any = "") -> None:
        """Record a push and its outcome; ``inherited``: job of the task whose report brought it."""
        job = item.get("schedule", {}).get("job") or inherited
        if outcome == "deferred":
            self._journal.put(self._truth.later_bodies, name, item.get("body"))
            self._journal.put(self._truth.later_jobs, name, job)
        elif outcome in DESCRIBES:
            # A push that had to wait for a search may have been decided before the failure.
            self._know(name, UNKNOWN if name in self._failed else item.get("body"))
            self._journal.put(self._truth.jobs, name, job)
            self._described.add(name)
        elif outcome == "cancelled":
            self.cancelled(name)

    def cancelled(self, name: Name) -> None:
        """Record that the task was cancelled; its deferred update has taken effect."""
        for later, known in (
            (self._truth.later_bodies, self._truth.bodies),
            (self._truth.later_jobs, self._truth.jobs),
        ):
            if name in later:
                if name not in self._described:
                    self._journal.put(known, name, later[name])
                self._journal.drop(later, name)

    def made(self, name: Name) -> None:
        """Record that the scheduler has made or pushed the task by itself."""
        self._know(name, UNKNOWN)
        self._journal.put(self._truth.jobs, name, UNKNOWN)
        self._journal.drop(self._truth.later_bodies, name)
        self._journal.drop(self._truth.later_jobs, name)
        self._described.add(name)

    def failed(self, name: Name, item: Message, may_be: frozenset[str], *, first: bool) -> None:
        """Record a failure that counted; ``first``: it is the task's first event in this turn."""
        was = self._truth.tasks.get(name)
        if was is not None and first and was.state == PROCESSING and was.token == item["token"]:
            self._failed[name] = Failure(item, was, may_be)
        elif item.get("again"):
            self._know(name, UNKNOWN)

    def reported(self, name: Name, item: Message, outcome: str, became: int) -> None:
        """Record that ``became`` new tasks of a report were decided."""
        wanted = len(item.get("new", ())) if outcome in ("done", "kept") else 0
        if became != wanted:
            raise Violation("B2", name.taskid, f"its report was {outcome}, and {became} of its new tasks were decided")

    # ------------------------------------------------------------------------------------ what is written

    def written(self, name: Name, task: Task, may_be: frozenset[str] | None, turn: Round) -> None:
        """Judge the write of a task; ``may_be``: states that the events of this turn allow."""
        failure = self._failed.get(name)
        if failure is not None and failure.may_be is may_be and name not in self._truth.deferred:
            self._check_failure(name, task, failure, turn)
        elif failure is not None and failure.item.get("again") and name not in self._described:
            self._know(name, UNKNOWN)

    def updated(self, name: Name, task: Task) -> None:
        """Record that a deferred update took effect at the end of a lease, unless the task was cancelled."""
        if name in self._truth.later_bodies:
            body = self._truth.later_bodies[name] if task.state in LIVE else UNKNOWN
            self._journal.drop(self._truth.later_bodies, name)
            if name not in self._described:
                self._know(name, body)
        if name in self._truth.later_jobs:
            job = self._truth.later_jobs[name] if task.state in LIVE else UNKNOWN
            self._journal.drop(self._truth.later_jobs, name)
            if name not in self._described:
                self._journal.put(self._truth.jobs, name, job)

    def brought_back(self, name: Name, update: NewTask) -> None:
        """Record that an undo has brought the task back, with an update that had been deferred."""
        self._know(name, decode(update.body))
        self._journal.put(self._truth.jobs, name, update.schedule.job or "")

    def kept(self, name: Name, task: Task) -> None:
        """Judge the job of a task as it is written, after a deferred update of it, if any."""
        job = self.job_of(name)
        if job is not UNKNOWN and task.job != job:
            raise Violation("B3", name.taskid, f"its job is {task.job!r}, and should be {job!r}")

    def handed(self, turn: Round) -> None:
        """Judge, after the writes of a turn, the bodies of dispatched tasks."""
        tasks = [task for _, said in turn.said if said["type"] == "select" for task in said["tasks"]]
        for task in tasks:
            name = Name(task["project"], task["taskid"])
            held, body = self._truth.tasks.get(name), self._truth.bodies.get(name, UNKNOWN)
            if held is None or body is UNKNOWN or (held.state, held.token) != (PROCESSING, task["token"]):
                continue
            if task.get("body") != body:
                raise Violation("B1", name.taskid, f"it is handed out with {task.get('body')}, its body is {body}")

    def _check_failure(self, name: Name, task: Task, failure: Failure, turn: Round) -> None:
        item, was, _ = failure
        again = item.get("again") or {}
        throttled = (item.get("fetched") or {}).get("status_code") in THROTTLES
        counts = again.get("counts")
        if task.state not in LIVE:
            if task.state == FAILED and counts is False:
                raise Violation("B1", name.taskid, "its failure was to use up no retry, and it has failed for good")
            if task.state != FAILED and again.get("body") is not None:
                self._know(name, UNKNOWN)
            return
        if again.get("body") is not None:
            self._know(name, again["body"])
        priority = again.get("priority")
        if priority is not None and task.priority != priority and not turn.kept.operations:
            raise Violation("B1", name.taskid, f"its priority is {task.priority}, its retry said {priority}")
        if counts is None and throttled:
            return
        wanted = was.retried + (item.get("retry_after") is None if counts is None else counts)
        if task.retried != wanted:
            raise Violation("B1", name.taskid, f"it has failed {task.retried} times, and should have {wanted} times")
        if task.seq != was.key:
            raise Violation("B1", name.taskid, f"its seq was {was.key}, and is {task.seq} after a retry")

    def _know(self, name: Name, body: Any) -> None:
        self._journal.put(self._truth.bodies, name, body)
