"""Laws of dependent tasks, judged by requests, replies, and the written edges.

G1   a task is dispatched only when each parent has succeeded since the edge was made, or was a success then; with
     policy ``run`` a failure is enough
G2   an edge is satisfied at most once, and a task with only satisfied edges is not blocked
G3   a task that failed ``upstream`` has a parent that has failed, was cancelled, or is gone
G4   when all is quiet: no propagation is left, no edge is left of tasks that are gone or have other parents, no task is
     awaited without children, and a blocked task waits for a parent that has not succeeded; unless it waits for a later
     success, or a user has had it run, none of its parents has failed
G5   no task waits for itself, directly or through others
G6   a rerun resets a task at most once; its children wait for its next success
G7   a task with policy ``only`` is dispatched only if a parent has not succeeded, or a user has it run, and is dropped
     only if each parent has ended; no other is dropped but with a parent
G8   a task that has passed a cancelled parent, and was not released, is blocked again when an undo brings that back; so
     is one that an undo brings back with an update, if a parent of that lives
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from taskqueue.core.model.edges import OVERLOOKED, PASSED, UNSATISFIED, Edge, Links, Mark, TaskRef
from taskqueue.core.model.rerun_set import LEFT
from taskqueue.core.model.task import (
    BLOCKED,
    CANCELLED,
    DELAYED,
    FAILED,
    HELD_UNTIL,
    OVER,
    PROCESSING,
    READY,
    SUCCESS,
    Task,
    key_time,
)
from taskqueue.core.moves.edges import NONE_FAILED
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from taskqueue.store.records.edges import task_key, tasks_of
from taskqueue.store.records.layout import AWAITED
from tests.simulation.truth import Name, Truth
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.laws import Round
    from tests.simulation.operations import Undone

Message = dict[str, Any]

EVERYTHING: Final = 1 << 30
GIVEN: Final = ("new", "replaced", "restarted")
"""Outcomes that give a task the parents of the item, even if it names none."""


class Given(NamedTuple):
    """Parents of a task, its policy when one fails, those that have succeeded, and those that have failed since."""

    parents: tuple[Name, ...]
    policy: str
    succeeded: frozenset[Name]
    failed: frozenset[Name]


class Edges:
    """Judge of parents and children."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._journal = truth.journal
        self._now: dict[Name, int] = {}
        self._reset: set[Name] = set()
        self._let_go: set[Name] = set()
        self._unsure: set[Name] = set()
        self._back: list[Undone] = []
        self._won: set[Name] = set()

    # ------------------------------------------------------------------------------------ what is heard

    def begin(self) -> None:
        """Begin a turn."""
        self._now.clear()
        self._reset.clear()
        self._let_go.clear()
        self._unsure.clear()
        self._back.clear()
        self._won.clear()

    def pushed(self, name: Name, outcome: str, item: Message) -> None:
        """Record a push and its outcome."""
        if outcome == "cancelled":
            self.cancelled(name)
        elif outcome == "deferred":
            self._put(self._truth.given_later, name, self._give(name, item))
        elif outcome in GIVEN:
            self._put(self._truth.given, name, self._give(name, item))
            self._journal.drop(self._truth.given_later, name)
            self._journal.drop(self._truth.by_hand, name)
            self._now[name] = READY
            self._unsure.discard(name)

    def succeeded(self, name: Name) -> None:
        """Record a success that counted: the task's children have one parent less to wait for."""
        self._now[name] = READY if name in self._truth.given_later else SUCCESS
        self._won.add(name)
        for table in (self._truth.given, self._truth.given_later):
            for child, given in list(table.items()):
                if name in given.parents:
                    self._put(table, child, given._replace(succeeded=given.succeeded | {name}))

    def ended(self, name: Name) -> None:
        """Record the end of the task's lease: the parents of a deferred update apply."""
        if name in self._truth.given_later:
            self._put(self._truth.given, name, self._truth.given_later[name])
            self._journal.drop(self._truth.given_later, name)

    def may_have_ended(self, name: Name) -> None:
        """Record that the task's lease may have ended, so that it may have the parents of a deferred update now."""
        if name in self._truth.given_later:
            self._unsure.add(name)

    def cancelled(self, name: Name) -> None:
        """Record that the task was cancelled, and has the parents of its deferred update."""
        self._now[name] = CANCELLED
        self.ended(name)
        self.failed(name)

    def retried(self, name: Name) -> None:
        """Record that the task is live again."""
        self._now[name] = READY

    def brought_back(self, undone: Undone) -> None:
        """Record that an undo has surely brought the task back, which its children wait for again."""
        self._now[undone.name] = READY
        self._back.append(undone)

    def may_drop(self, name: Name, item: Message | None = None) -> bool:
        """Whether the task, with this push, may end at once: it runs only after a failure, and there may be none."""
        known = [self._truth.given.get(name), self._truth.given_later.get(name)]
        policies = [each.policy for each in known if each is not None]
        return "only" in (*policies, (item or {}).get("on_parent_failure"))

    def ran_by_hand(self, name: Name) -> None:
        """Record that a user has the task run, whatever its parents did."""
        self._put(self._truth.by_hand, name, True)

    def cleared(self, name: Name, *, surely: bool) -> None:
        """Record a clear of the project; not ``surely``: the task may have finished, and then keeps its parents."""
        if surely:
            self.gone(name)
        else:
            self._unsure.add(name)

    def gone(self, name: Name) -> None:
        """Record that the task is forgotten, or was cleared, which counts as a failure."""
        self._journal.drop(self._truth.given, name)
        self._journal.drop(self._truth.given_later, name)
        self.failed(name)

    def _give(self, name: Name, item: Message) -> Given:
        parents = tuple(
            Name(name.project, parent) if isinstance(parent, str) else Name(*parent)
            for parent in item.get("depends_on", ())
        )
        for parent in parents:
            self._check_cycle(name, parent)
        before = {parent: self._now.get(parent, self._state(parent)) for parent in parents}
        return Given(
            parents,
            item.get("on_parent_failure", "fail"),
            frozenset(each for each in parents if before[each] == SUCCESS),
            frozenset(each for each in parents if before[each] in (FAILED, CANCELLED) or self._is_swept(each)),
        )

    def _is_swept(self, name: Name) -> bool:
        """Whether the task was cleared and not swept yet: it may count as failed for new children."""
        return name.project in self._truth.dropped_at and name not in self._truth.tasks

    def _check_cycle(self, name: Name, parent: Name) -> None:
        """Judge law G5."""
        seen, waits = {parent}, [parent]
        while waits:
            one = waits.pop()
            if one == name:
                raise Violation("G5", name.taskid, f"it was given the parent {parent.taskid}, which waits for it")
            if one in self._unsure:
                continue
            for table in (self._truth.given, self._truth.given_later):
                further = [each for each in table[one].parents if each not in seen] if one in table else []
                seen.update(further)
                waits += further

    def failed(self, name: Name) -> None:
        """Record that the task has failed, or was cancelled or cleared."""
        for table in (self._truth.given, self._truth.given_later):
            for child in list(table):
                self._note_failure(table, child, name)

    def _note_failure(self, table: dict[Name, Given], child: Name, parent: Name) -> None:
        given = table.get(child)
        if given is not None and parent in given.parents and parent not in given.failed:
            self._put(table, child, given._replace(failed=given.failed | {parent}))

    def passed(self, turn: Round) -> None:
        """Record parents that fail for good in this turn, for children that pass them in it: these may run at once."""
        moves, attempts = turn.kept.moves, turn.kept.attempts
        ended = {TaskRef(task.project, task.taskid) for task, *_ in moves if task.state in (FAILED, CANCELLED)}
        ended |= {TaskRef(each.project, each.taskid) for each in attempts if each.attempt.outcome == "upstream"}
        for edge, mark in turn.kept.edges.items():
            if edge.parent in ended and mark is not None and mark.state in (PASSED, OVERLOOKED):
                child, parent = self._name_of(edge.child), self._name_of(edge.parent)
                self._note_failure(self._truth.given, child, parent)
                self._note_failure(self._truth.given_later, child, parent)

    # ------------------------------------------------------------------------------------ what is written

    def handed(self, name: Name) -> None:
        """Judge laws G1 and G7."""
        self.ended(name)
        given = self._truth.given.get(name)
        if given is None:
            return
        for parent in given.parents:
            is_excused = given.policy in ("run", "only") and parent in given.failed
            if parent not in given.succeeded and not is_excused:
                raise Violation("G1", name.taskid, f"it is handed out, but {parent.taskid} has not succeeded")

        if given.policy == "only" and given.parents and not given.failed and name not in self._truth.by_hand:
            raise Violation("G7", name.taskid, "it is handed out, but no parent has failed")

    def revived(self, turn: Round, numbers: dict[int, str]) -> Iterable[Name]:
        """Yield tasks that had failed ``upstream`` and whose written edges make them live."""
        for task, old_state, *_ in turn.kept.moves:
            name = Name(numbers[task.project], task.taskid)
            if old_state not in (FAILED, CANCELLED) or task.state in OVER:
                continue
            if name in self._truth.upstream or self._waits_again(turn, TaskRef(task.project, task.taskid)):
                yield name

    def _waits_again(self, turn: Round, child: TaskRef) -> bool:
        """Whether the task, which was dropped, has an edge to a parent that an undo has brought back."""
        return self._name_of(child) in self._truth.dropped and any(
            edge.child == child and mark is not None and not mark.state and edge not in turn.kept.new_edges
            for edge, mark in turn.kept.edges.items()
        )

    def failed_upstream(self, turn: Round, numbers: dict[int, str]) -> Iterable[Name]:
        """Yield tasks that fail in this turn because of parents: law G3."""
        for kept in turn.kept.attempts:
            if kept.attempt.outcome == "upstream" and kept.project in numbers:
                name = Name(numbers[kept.project], kept.taskid)
                _, _, parent = kept.attempt.error.partition(" ")
                if parent == NONE_FAILED:
                    self._check_dropped(name, {kept.taskid for kept in turn.kept.attempts})
                else:
                    self._check_failed(name, parent, turn)
                yield name

    def _check_dropped(self, name: Name, end_now: Collection[str]) -> None:
        """Judge law G7 of a task of which no parent has failed; ``end_now``: taskids with an attempt of this turn."""
        for table in (self._truth.given, self._truth.given_later):
            given = table.get(name)
            if given is None or given.policy != "only":
                continue
            ended = given.succeeded | given.failed
            if rest := [each for each in given.parents if each not in ended and each.taskid not in end_now]:
                raise Violation("G7", name.taskid, f"it is dropped, and {rest} have not ended")
            return
        # An earlier push of this turn may have given it other parents.
        if name in self._truth.given and self._truth.given[name].parents and name not in self._now:
            raise Violation("G7", name.taskid, "it is dropped, though it runs after a success")

    def _check_failed(self, name: Name, parent: str, turn: Round) -> None:
        project, _, taskid = parent.rpartition("/")
        of = Name(project or name.project, taskid)
        fails_now = any(task.taskid == taskid and task.state in (FAILED, CANCELLED) for task, *_ in turn.kept.moves)
        # A rerun may have reset it since.
        fails_now |= any(kept.taskid == taskid and kept.attempt.outcome == "upstream" for kept in turn.kept.attempts)
        fails_now |= self._now.get(of) in (FAILED, CANCELLED)
        if not fails_now and self._state(of) not in (FAILED, CANCELLED, None):
            raise Violation(
                "G3", name.taskid, f"it has failed because of {parent}, which is in state {self._state(of)}"
            )

    def written(self, turn: Round, numbers: dict[int, str]) -> None:
        """Judge law G2, and record the written edges."""
        for edge, mark in turn.kept.edges.items():
            self._mark(edge, mark, is_new=edge in turn.kept.new_edges)
        for undone in self._back:
            for edge, mark in self._edges_to(undone.name):
                if mark.state == UNSATISFIED:
                    self._forget_failure(self._name_of(edge.child), undone.name)
        for task in (*(move[0] for move in turn.kept.moves), *turn.kept.linked.values()):
            if task.project in numbers:
                self._look_at(Name(numbers[task.project], task.taskid), task)
        self._check_waiting_again()
        for name in sorted(self._unsure):  # one that was pushed and cleared in this turn
            if name not in self._truth.tasks:
                self.gone(name)
        for number, propagation in turn.kept.propagations.items():
            if propagation is None:
                self._journal.drop(self._truth.propagations, number)
            else:
                self._put(self._truth.propagations, number, True)

    def _mark(self, edge: Edge, mark: Mark | None, *, is_new: bool) -> None:
        before = self._truth.marks.get(edge)
        if mark is None:
            self._journal.drop(self._truth.marks, edge)
            return
        was = before.state if before is not None and before.number == mark.number else UNSATISFIED
        # One that was passed may have been waited for again in between.
        if not is_new and mark.state and (before is None or was not in (UNSATISFIED, PASSED)):
            raise Violation("G2", edge.child.taskid, f"its edge to {edge.parent.taskid} is satisfied twice: {before}")
        if not is_new and not mark.state and was:
            if was != PASSED:
                raise Violation("G2", edge.child.taskid, f"it waits again for {edge.parent.taskid}: it was {before}")
            self._wait_again(self._name_of(edge.child), self._name_of(edge.parent))
        self._put(self._truth.marks, edge, mark)

    def _look_at(self, name: Name, task: Task) -> None:
        links = task.links or Links()
        if task.state == BLOCKED and not links.missing and task.exetime != HELD_UNTIL:
            raise Violation("G2", name.taskid, "it is blocked, and all its edges are satisfied")
        if task.state in (READY, DELAYED, PROCESSING) and links.missing:
            raise Violation("G2", name.taskid, f"it is not blocked, and {links.missing} edges are not satisfied")
        if links.number or name in self._truth.edge_numbers:
            self._put(self._truth.edge_numbers, name, links.number)
        is_dropped = task.state == CANCELLED and links.dropped
        self._mark_as(self._truth.dropped, name, is_so=is_dropped)
        self._mark_as(self._truth.upstream, name, is_so=bool(links.missing) and (task.state == FAILED or is_dropped))
        if task.state in (FAILED, CANCELLED):
            self.failed(name)

    def _mark_as(self, table: dict[Name, bool], name: Name, *, is_so: bool) -> None:
        if is_so:
            self._put(table, name, True)
        else:
            self._journal.drop(table, name)

    # ------------------------------------------------------------------------------------ undos

    def _check_waiting_again(self) -> None:
        """Judge law G8."""
        for undone in self._back:
            if not undone.is_through or self._state(undone.name) not in (READY, DELAYED, PROCESSING, BLOCKED):
                continue
            for edge, mark in self._edges_to(undone.name):
                name = self._name_of(edge.child)
                held = self._truth.tasks.get(name)
                if held is None or mark.state != PASSED or self._truth.edge_numbers.get(name) != mark.number:
                    continue
                is_dropped = name in self._truth.dropped and key_time(held.key) >= undone.began_at and not held.bare
                if held.state == BLOCKED or is_dropped:
                    reason = f"it does not wait again for {undone.name.taskid}, which an undo has brought back"
                    raise Violation("G8", name.taskid, reason)
            if undone.update is not None:
                self._check_update(undone.name)

    def _check_update(self, child: Name) -> None:
        """Judge law G8 of a task that has come back with an update."""
        for edge, mark in self._truth.marks.items():
            is_passed = mark.state == PASSED and mark.number == self._truth.edge_numbers.get(child)
            if is_passed and self._name_of(edge.child) == child:
                parent = self._name_of(edge.parent)
                if self._state(parent) in (READY, DELAYED, PROCESSING, BLOCKED):
                    raise Violation("G8", child.taskid, f"its update does not wait for {parent.taskid}, which lives")

    def _edges_to(self, parent: Name) -> list[tuple[Edge, Mark]]:
        """List the edges of the store to a task."""
        held = self._truth.tasks.get(parent)
        ref = TaskRef(0 if held is None else held.number, parent.taskid)
        return [(edge, mark) for edge, mark in self._truth.marks.items() if edge.parent == ref]

    def _name_of(self, ref: TaskRef) -> Name:
        names = {facts.number: name for name, facts in self._truth.projects.items()}
        return Name(names.get(ref.project, ""), ref.taskid)

    def _wait_again(self, child: Name, parent: Name) -> None:
        """Let the child wait for the parent's next end; that may be a success of this turn."""
        self._forget_failure(child, parent)
        for table in (self._truth.given, self._truth.given_later):
            given = table.get(child)
            if given is not None and parent not in self._won:
                self._put(table, child, given._replace(succeeded=given.succeeded - {parent}))

    def _forget_failure(self, child: Name, parent: Name) -> None:
        for table in (self._truth.given, self._truth.given_later):
            given = table.get(child)
            if given is not None and parent in given.failed:
                self._put(table, child, given._replace(failed=given.failed - {parent}))

    # ------------------------------------------------------------------------------------ reruns

    def reset(self, turn: Round, numbers: dict[int, str]) -> Iterable[Name]:
        """Yield tasks that reruns have reset in this turn: law G6."""
        said = {each.operation: [row for row in each.members.values() if row.fate != LEFT] for each in turn.kept.reruns}
        # A task that failed and was reset in one turn may have propagated its failure in between.
        failed = {
            Name(numbers[kept.project], kept.taskid)
            for kept in turn.kept.attempts
            if kept.attempt.outcome in ("failed", "timeout", "crashed") and kept.project in numbers
        }
        for record in {each.progress.id: each for each in turn.kept.operations}.values():
            progress = record.progress
            if progress.action != "rerun" or progress.dry_run:
                continue
            names = [Name(numbers[row.project], row.taskid) for row in said.get(progress.id, ())]
            before, former = self._truth.reruns.get(progress.id, (0, frozenset()))
            if record.cursor is not None and record.cursor.phase == "release" and record.cursor.position:
                self._let_go |= former
            self._check_reset(names, former, progress.matched - before)
            self._unsatisfy(turn, names, former.union(names))
            for name in sorted(failed.intersection(names)):
                self.failed(name)
            self._reset.update(names)
            for name in names:
                self.ran_by_hand(name)
            if progress.ended_at:
                self._journal.drop(self._truth.reruns, progress.id)
            else:
                self._put(self._truth.reruns, progress.id, (progress.matched, former.union(names)))
            yield from names

    def _check_reset(self, names: list[Name], former: Collection[Name], gained: int) -> None:
        seen = set(former)
        for name in names:
            if name in seen:
                raise Violation("G6", name.taskid, "a rerun has reset it twice")
            seen.add(name)
        if gained != len(names):
            raise Violation("G6", "", f"a rerun says that it has reset {gained} tasks, but these are {names}")

    def _unsatisfy(self, turn: Round, names: list[Name], members: Collection[Name]) -> None:
        """Let tasks wait again for parents in the set, except for those that have succeeded or failed again since."""
        for name in names:
            self.ended(name)
            given = self._truth.given.get(name)
            if given is None:
                continue
            untold = self._untold(turn, name)
            again = {
                each
                for each in given.parents
                if each in names or ((each in members or each.taskid in untold) and not self._is_success(each))
            }
            told_anew = {each for each in again if each not in names and self._has_failed(each)}
            given = given._replace(succeeded=given.succeeded - again, failed=given.failed - (again - told_anew))
            self._put(self._truth.given, name, given)

    def _untold(self, turn: Round, name: Name) -> set[str]:
        """List parents whose success was not propagated: of those that are live again, the next success counts."""
        marks = self._truth.marks
        return {
            edge.parent.taskid
            for edge, mark in turn.kept.edges.items()
            if edge.child.taskid == name.taskid and mark and not mark.state and edge in marks and not marks[edge].state
        }

    def _is_success(self, name: Name) -> bool:
        return self._now.get(name, self._state(name)) == SUCCESS

    def _has_failed(self, name: Name) -> bool:
        return self._now.get(name, self._state(name)) in (FAILED, CANCELLED)

    def is_kept(self, name: Name) -> bool:
        """Whether a rerun has reset the task in this turn, after all requests of the turn."""
        return name in self._reset

    def is_let_go(self, name: Name) -> bool:
        """Whether the rerun that keeps the task goes on to release tasks in this turn."""
        return name in self._let_go

    # ------------------------------------------------------------------------------------ the end

    def under_way(self) -> bool:
        """Whether propagations are left."""
        return bool(self._truth.propagations or self._truth.reruns)

    def reckon(self, blocked: Sequence[Name]) -> None:
        """Judge law G4 of tasks that are blocked when all is quiet."""
        for name in blocked:
            given = self._truth.given[name]
            waits = [each for each in given.parents if each not in given.succeeded]
            if not waits or any(self._state(each) == SUCCESS for each in waits):
                raise Violation("G4", name.taskid, f"it is blocked for ever; it waits for {waits}")
            failed = [each for each in waits if self._state(each) in (FAILED, CANCELLED)]
            if failed and given.policy == "fail" and name not in self._truth.by_hand:
                raise Violation("G4", name.taskid, f"it is blocked for ever, though {failed} have failed")

    def reckon_with(self, store: Store) -> None:
        """Judge law G4 of the store at the end."""
        top = b"\xff" * 8
        if left := store.scan(layout.PROPAGATIONS, b"", top, EVERYTHING):
            raise Violation("G4", "", f"{len(left)} propagations are left")
        edges = [tasks_of(key) for key, _ in store.scan(layout.PARENTS, b"", top, EVERYTHING)]
        parents = {task_key(*parent) for _, parent in edges}
        known = {}
        for key, value in store.scan(layout.IDS, b"", top, EVERYTHING):
            number, taskid = layout.project_of(key), key[4:].decode()
            if value == AWAITED and task_key(number, taskid) not in parents:
                raise Violation("G4", taskid, "it is awaited without children")
            if value != AWAITED:
                known[number, taskid] = layout.task_of(number, taskid, value)
        marks = store.get(layout.PARENTS, [task_key(*child) + task_key(*parent) for child, parent in edges])
        for (child, _), mark in zip(edges, marks, strict=True):
            links = known[child].links if child in known else None
            if links is None or mark is None or mark[1:] != links.number.to_bytes(8, "big"):
                raise Violation("G4", child.taskid, "an edge of it is left that means nothing")

    def _state(self, name: Name) -> int | None:
        held = self._truth.tasks.get(name)
        return held.state if held is not None else None

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self._journal.put(table, key, value)
