"""Refusal of edges that would close a cycle, so that no task waits for itself, directly or not.

    new-task ──► task without children, or parents without parents ──► done
             ──► otherwise waits, whole and undecided ──► searched ──► done, without items that close a cycle

Rules:
1. Only a task that gets parents while others wait for it can close a cycle, and only if one of its parents waits
   for others. Both are known without a search; the request's earlier items count as if they had been accepted.
2. While a request is searched its tasks count as having parents, and its parents as having children.
3. All valid edges count, also satisfied ones, because a rerun would go round in circles, and those of deferred
   updates.
4. A search scans EDGES_A_TURN edges a turn; see ``cycle_search`` for the bound of all.
5. After the search the request's tasks may have changed; if it would then make other edges than those that
   were searched, it waits once more, TRIES_MOST times in all.
6. A report never waits: follow-ups that would need a search are rejected.

The steps of a search are here and not in ``steps``, so that pushes have one place for the rule and the findings
of the search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from taskqueue.core.model.cycle_search import EDGES_MOST, LaidOver, Page, PlannedEdges
from taskqueue.core.model.edges import Edge, FoundEdges, Mark, TaskRef, WalkRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.push_outcome import decide
from taskqueue.core.model.recrawl_interval import good_for
from taskqueue.core.model.task import Task
from taskqueue.core.model.waiting_pushes import WaitingPush
from taskqueue.core.moves.edges import named
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.choices import PushOutcome
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.tasks import NewTasks
from taskqueue.protocol.values import NewTask

EDGES_A_TURN = 4096

READ_A_TURN = 512
"""Edges read for each direction in a turn; the rest of its edges were read before."""

TRIES_MOST: Final = 3

NAMES_TOLD: Final = 6
"""Tasks of a cycle that are named in a reason, at most; of a longer one the first and the last ones."""

UNNAMED: Final = "(a task outside)"
"""Name of a task in a reason for callers that do not reach its project."""

NAME_CHARS: Final = 48
"""Characters of a name in a reason, at most."""

Verdicts = Mapping[int, str]
"""Reasons why edges can't be made, by index of the items that may have been searched; empty if they can."""

UNSEARCHED: Final[Verdicts] = {}


def decide_cycles(turn: TurnState, incoming: Incoming) -> Verdicts | None:
    """Return the verdicts on the edges of a push; None if it waits, and nothing of it may be done now.

    Raises:
        Rejected: too many requests wait already.
    """
    request = incoming.request
    assert isinstance(request, NewTasks)
    if not any(item is not None and item.depends_on for item in request.tasks):
        return UNSEARCHED
    line = turn.state.waiting_pushes
    former = line.decided if line.decided is not None and line.decided.incoming is incoming else None
    plan = tuple(_Plan(turn, request).edges())
    if former is not None and former.plan == plan:
        return {planned.place: _verdict(turn, former, planned) for planned in plan}
    searched = dict.fromkeys(_to_search(turn, plan))
    tries = 1 if former is None else former.tries + 1
    if searched and tries <= TRIES_MOST:
        line.add(WaitingPush(incoming, plan, searched, tries))
        turn.state.pending.begin("cycles")
        return None
    late = "depends_on: its tasks change during the search for a cycle; push it again"
    return {planned.place: late if planned.place in searched else "" for planned in plan}


def check(turn: TurnState, project: Project, item: NewTask, verdict: str | None) -> None:
    """Check that the edges of an item close no cycle.

    Args:
        verdict: verdict of the search; None if there was none.

    Raises:
        Rejected: they close one, or that can't be known without a search.
    """
    if verdict is None:
        parents = list(_refs(turn, project, item))
        if is_search_needed(turn, TaskRef(project.number, item.taskid), parents):
            raise Rejected(
                "malformed", "depends_on: it may close a cycle, and only a new-task can wait for the search; push it"
            )
    elif verdict:
        raise Rejected("malformed", verdict)


def is_search_needed(turn: TurnState, child: TaskRef, parents: Collection[TaskRef]) -> bool:
    """Return whether these edges may close a cycle, as far as that is known without a search."""
    return _is_waited_for(turn, child) and any(_waits(turn, parent) for parent in parents)


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next edges of the search under way."""
    search = turn.state.waiting_pushes.searching
    if search is not None:
        for to_parents in (True, False):
            wanted.walks.append(WalkRef(to_parents, search.places(to_parents), READ_A_TURN))


def step(turn: TurnState) -> None:
    """Continue the search."""
    line = turn.state.waiting_pushes
    search = line.searching
    if search is None:
        return
    search.known.trim()
    for ref, walk in turn.found.walks.items():
        for place, found in walk.items():
            search.known.add(ref.to_parents, place, _page(turn, ref.to_parents, found))
    search.go_on(EDGES_A_TURN - 2 * READ_A_TURN)


def settle(turn: TurnState) -> None:
    """Prepare the next turn: it does the request if it has been searched, or continues the search."""
    line = turn.state.waiting_pushes
    if not line.pending:
        return
    search = line.searching
    if search is None:
        line.begin_search()
    else:
        search.disturbed |= _vanished(turn)
        if search.in_doubt:
            line.search_again(search)
        elif search.ended:
            line.end_search(search)
    turn.more = True


def _vanished(turn: TurnState) -> bool:
    """Return whether this turn may have made edges void."""
    writes = turn.changes.writes
    kinds = (each.kind for each in writes.propagations.values() if each is not None)
    return bool(writes.cleared or writes.dropped_projects) or any(kind in ("edges", "retired") for kind in kinds)


# ------------------------------------------------------------------------------------------------ before a search


def _is_waited_for(turn: TurnState, ref: TaskRef) -> bool:
    """Return whether other tasks wait for the task, or may."""
    if ref in turn.changes.awaited or turn.state.waiting_pushes.gives_children_to(ref):
        return True
    task = turn.task_at(ref) or turn.changes.stale.get(ref)
    return task is not None and task.links is not None and task.links.has_children


def _waits(turn: TurnState, ref: TaskRef) -> bool:
    """Return whether the task has parents, or may have."""
    return turn.state.waiting_pushes.gives_parents_to(ref) or _has_parents(turn.task_at(ref))


def _to_search(turn: TurnState, plan: Sequence[PlannedEdges]) -> Iterator[int]:
    """Yield the indices of the items that need a search, each after the changes of those before it."""
    laid = LaidOver()
    for planned in plan:
        child, parents = planned.child, planned.parents
        may_be_met = parents and (laid.children.get(child) or _is_waited_for(turn, child))
        if may_be_met and any(parent in laid.parents or _waits_still(turn, laid, parent) for parent in parents):
            yield planned.place
        laid.lay(planned)


def _waits_still(turn: TurnState, laid: LaidOver, ref: TaskRef) -> bool:
    """Return whether the task has parents that no earlier item removes."""
    if turn.state.waiting_pushes.gives_parents_to(ref):
        return True
    return laid.void.get(ref) is not False and _has_parents(turn.task_at(ref))


class _Plan:
    """Edges that a request would make, item by item, as far as that can be known before it is done.

    Items that turn out to be rejected for other reasons, such as a full project, count as accepted.
    """

    def __init__(self, turn: TurnState, request: NewTasks) -> None:
        self._turn = turn
        self._request = request
        self._made: dict[str, int] = {}  # projects that the request would create, by name: negative numbers
        self._outcomes: dict[TaskRef, PushOutcome] = {}

    def edges(self) -> Iterator[PlannedEdges]:
        """Yield the edges in order of the items, including those of items that only remove edges."""
        for index, item in enumerate(self._request.tasks):
            number = None if item is None else self._number(item.project or self._request.project, is_child=True)
            if item is not None and number is not None:
                planned = self._edges_of(index, item, TaskRef(number, item.taskid))
                if planned is not None:
                    yield planned

    def _edges_of(self, index: int, item: NewTask, child: TaskRef) -> PlannedEdges | None:
        task, before = self._turn.task_at(child), self._outcomes.get(child)
        outcome = _outcome(self._turn, task, item, before)
        if outcome == "ignored" or outcome == "merged":
            return None
        is_cancelled = outcome == "cancelled"
        parents = () if is_cancelled else self._parents(item, child)
        if parents is None:
            return None
        self._outcomes[child] = outcome
        had = _has_parents(task) if before is None else not is_cancelled or before == "deferred"
        if not parents and not had:
            return None
        return PlannedEdges(index, child, parents, is_cancelled or outcome == "deferred")

    def _parents(self, item: NewTask, child: TaskRef) -> tuple[TaskRef, ...] | None:
        """Return the parents of an item; None if it will be rejected because of them."""
        parents: dict[TaskRef, None] = {}
        for name, taskid in named(item.project or self._request.project, item):
            number = self._number(name, is_child=False)
            if number is None or (number, taskid) == child:
                return None
            parents[TaskRef(number, taskid)] = None
        return tuple(parents)

    def _number(self, name: str, *, is_child: bool) -> int | None:
        """Return the number of a project; None if it does not exist, and is not created."""
        state = self._turn.state
        project = state.projects.by_name.get(name)
        if project is not None:
            return project.number
        if is_child and state.config.auto_create:
            self._made.setdefault(name, -1 - len(self._made))
        return self._made.get(name)


def _outcome(turn: TurnState, task: Task | None, item: NewTask, before: PushOutcome | None) -> PushOutcome:
    """Return the outcome of an item after the outcome ``before`` of an earlier one for the same task, if any."""
    schedule = item.schedule
    if before is None:
        return decide(task, schedule, turn.now.wall)
    if schedule.cancel:
        return "cancelled" if schedule.force_update and before != "cancelled" else "ignored"
    if before == "cancelled":
        is_restarted = schedule.force_update or schedule.itag or good_for(schedule) is not None
        return "restarted" if is_restarted else "ignored"
    if not schedule.force_update:
        return "ignored"
    return "deferred" if before == "deferred" else "replaced"


# ------------------------------------------------------------------------------------------------ findings


def _page(turn: TurnState, to_parents: bool, found: FoundEdges) -> Page:
    """Return the valid ones of the edges that were read."""
    ends = []
    for edge, mark, _ in found.edges:
        deferred = _validity(turn, edge, mark)
        if deferred is not None:
            ends.append((edge.parent if to_parents else edge.child, deferred))
    return Page(ends, found.edges[-1].key if found.edges else b"", found.end)


def _validity(turn: TurnState, edge: Edge, mark: Mark) -> bool | None:
    """Return whether an edge belongs to a deferred update; None if it is void."""
    child = turn.task_at(edge.child)
    if child is None:
        return None
    if child.links is not None and child.links.number == mark.number:
        return False
    deferred = child.lease.links if child.lease is not None else None
    return True if deferred is not None and deferred.number == mark.number else None


def _verdict(turn: TurnState, push: WaitingPush, planned: PlannedEdges) -> str:
    """Return the reason why the edges of an item can't be made; empty if they can."""
    if planned.place not in push.cycles:
        return ""
    cycle = push.cycles[planned.place]
    if cycle is None:
        return f"depends_on: graph-too-large: {EDGES_MOST} edges were scanned, and it may still close a cycle"
    return f"depends_on: {shown(turn, cycle)}: it would wait for itself"


def shown(turn: TurnState, cycle: Sequence[TaskRef]) -> str:
    """Return the tasks of a cycle as text, each before the one that it waits for."""
    names = [_name(turn, ref, cycle[0].project) for ref in (cycle if len(cycle) <= NAMES_TOLD else _ends_of(cycle))]
    if len(cycle) > NAMES_TOLD:
        names.insert(NAMES_TOLD // 2, f"… {len(cycle) - NAMES_TOLD} more …")
    return " → ".join(names)


def _ends_of(cycle: Sequence[TaskRef]) -> list[TaskRef]:
    return [*cycle[: NAMES_TOLD // 2], *cycle[-(NAMES_TOLD // 2) :]]


def _name(turn: TurnState, ref: TaskRef, own: int) -> str:
    """Return the name of a task in a reason: its taskid, with its project if that is not ``own``.

    Tasks of projects that the caller does not reach are not named.
    """
    project = turn.state.projects.by_number.get(ref.project)
    if not turn.caller.reaches(project.name if project is not None else ""):
        return UNNAMED
    name = ref.taskid if ref.project == own or project is None else f"{project.name}/{ref.taskid}"
    return name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"


def _refs(turn: TurnState, project: Project, item: NewTask) -> Iterator[TaskRef]:
    """Yield the parents of an item whose projects are known."""
    for name, taskid in named(project.name, item):
        of = turn.state.projects.by_name.get(name)
        if of is not None:
            yield TaskRef(of.number, taskid)


def _has_parents(task: Task | None) -> bool:
    """Return whether the store has edges to parents of the task."""
    if task is None:
        return False
    deferred = task.lease.links if task.lease is not None else None
    return any(links is not None and links.number for links in (task.links, deferred))
