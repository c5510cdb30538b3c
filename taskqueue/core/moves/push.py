"""Pushes: new tasks of producers (``new-task``), follow-ups of reports, and the scheduler's own.

``push_outcome.decide`` determines the outcome, which is carried out here. The tasks of a batch are decided one by one,
and each sees those before it.

If new tasks of a slot seem to come from a trap, such as a calendar, an event says so, once a day and slot.
``model/traps`` detects traps. The time of the event is stored with the project, so that a restart does not
repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import structs

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.hashes import unguessable
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.push_outcome import decide, due_at, hurries
from taskqueue.core.model.recrawl_interval import as_replaced, recurs_after
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import CANCELLED, NO_TOKEN, PROCESSING, STATE_NAMES, Task, deferred_bytes
from taskqueue.core.model.traps import SAMPLES, Finding, TrapKind
from taskqueue.core.moves import cycles, edges, flows, slots
from taskqueue.core.moves.projects import project_for_push
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.choices import KnownState, PushOutcome
from taskqueue.protocol.fields import MAX_TASKID_BYTES, MAX_URL_CHARS
from taskqueue.protocol.message_room import room_beside
from taskqueue.protocol.messages import NO_MAP, Flaws
from taskqueue.protocol.tasks import ItemError
from taskqueue.protocol.values import NewTask, Schedule
from taskqueue.settings.own_tasks import Template, filled, filled_start

ITEM_CODES: Final = ("forbidden", "slot-full")
"""Codes that the error of an item has; those of other refusals are empty."""

ON_FAILURE: Final = "on_failure."
"""Beginning of the taskid of a task that is made for one that has failed for good."""

DEFERRED_PART: Final = 8
"""Divisor of ``queue_bytes`` that gives the bytes of all deferred updates, on top of it."""


def take_batch(
    turn: TurnState,
    project: str,
    items: Sequence[NewTask | None],
    flaws: Flaws,
    parent: tuple[int, ...] = (),
    origin: Spec | None = None,
    job: str = "",
    verdicts: cycles.Verdicts = cycles.UNSEARCHED,
    states: list[KnownState] | None = None,
) -> tuple[list[PushOutcome], list[ItemError]]:
    """Take in a batch of new tasks, each by itself.

    Args:
        project: project of the items that name none.
        parent: path of the batch in its message; only a batch of follow-ups has one, and ``max_queue`` does not apply
            to it.
        origin: spec of the task that led to these; None if they were pushed by a producer.
        job: job of that task, which those that name none get; empty if it has none.
        verdicts: verdicts on the items that were searched for cycles.
        states: list to which the former state of each item's task is added; None if it was not requested.

    Returns:
        The outcome of each item, and the reasons of rejected ones.
    """
    outcomes: list[PushOutcome] = []
    errors: list[ItemError] = []
    depth = 0 if origin is None else origin.depth + 1
    projects = turn.state.projects.by_name
    for index, item in enumerate(items):
        if states is not None:
            states.append(_known_state(turn, project, item))
        try:
            if item is None:
                flaw = flaws.get((*parent, index), NO_MAP)
                raise Rejected(flaw.code, flaw.reason)
            if job and item.schedule.job is None:
                item = _of_job(item, job)
            verdict = verdicts.get(index) if verdicts else None
            name = item.project or project
            outcome = take(turn, name, item, depth, verdict, bounded=not parent)
            outcomes.append(outcome)
            if outcome == "new":
                of = projects[name]
                if of.totals.new >= of.sampling.at:
                    look_for_trap(turn, of, items, index, origin)
        except Rejected as rejected:
            outcomes.append("rejected")
            errors.append(ItemError(index, rejected.reason, parent[0] if parent else None, item_code(rejected.code)))
    return outcomes, errors


def _of_job(item: NewTask, job: str) -> NewTask:
    return structs.replace(item, schedule=structs.replace(item.schedule, job=job))


def item_code(code: str) -> str:
    """Return the code of a refusal as the ``code`` of an item's error."""
    return code if code in ITEM_CODES else ""


def _known_state(turn: TurnState, project: str, item: NewTask | None) -> KnownState:
    """Return the state of the item's task; empty if it is unknown, or the item is malformed."""
    of = None if item is None else turn.state.projects.by_name.get(item.project or project)
    task = None if item is None or of is None else turn.find(of, item.taskid)
    return "" if task is None else STATE_NAMES[task.state]


def need_tasks(turn: TurnState, name: str, items: Sequence[NewTask | None], wanted: Needs) -> None:
    """Look up the items' tasks that are not in memory; ``name`` is the project of items that name none."""
    projects = turn.state.projects.by_name
    default = projects.get(name)
    unseen = wanted.tasks
    for item in items:
        if item is None:
            continue
        own = item.project
        project = projects.get(own) if own else default
        taskid = item.taskid
        if project is not None and taskid not in project.queue.tasks:
            unseen.append((project.number, taskid))
        elif project is not None and item.schedule.cancel:
            need_update(turn, project, taskid)
        if item.schedule.recrawl is not None and project is not None:
            _need_page(turn, project, item, wanted)
        if item.depends_on:
            turn.gives_parents = True
            edges.need(turn, own or name, item, wanted)
    if turn.state.divided:
        for item in items:
            project = None if item is None else projects.get(item.project or name)
            if item is not None and project is not None:
                slots.need_name(turn, project, item.url, item.schedule.slot, wanted)
    if turn.state.flows.active:
        for item in items:
            project = None if item is None else projects.get(item.project or name)
            if item is not None and project is not None and item.taskid not in project.queue.tasks:
                flows.need(project, item.taskid, wanted)


def need_update(turn: TurnState, project: Project, taskid: str) -> None:
    """Look up the spec of a running task that may be cancelled, if that applies a deferred update of it."""
    task = project.queue.tasks.get(taskid)
    if task is not None and task.lease is not None and task.lease.deferred is not None:
        turn.ask(task)


def take(
    turn: TurnState, name: str, item: NewTask, depth: int, verdict: str | None = None, *, bounded: bool
) -> PushOutcome:
    """Take in one task.

    Args:
        verdict: see ``cycles.check``.
        bounded: True if the project's ``max_queue`` applies.

    Raises:
        Rejected: the project is unknown, it, the task's slot or the memory for deferred updates is full, or the task is
            too large, or closes a cycle.
    """
    state = turn.state
    project = state.projects.by_name.get(name) or project_for_push(turn, name)
    task = turn.find(project, item.taskid)
    if turn.found.unreadable:
        _refuse_unreadable(turn, project, item)
    outcome = decide(task, item.schedule, turn.now.wall)
    if outcome == "ignored" or (depth and depth > project.settings.max_depth):
        return "ignored"
    is_arrival = task is None and project.making
    if is_arrival and flows.is_promised(turn, project, item.taskid):
        return "ignored"
    is_counted = False
    if project.has_limits and (outcome == "new" or outcome == "restarted"):
        is_awaited = TaskRef(project.number, item.taskid) in turn.changes.awaited
        _check_room(project, bounded=bounded and not is_awaited, is_new=outcome == "new")
        is_counted = project.counts_slots and outcome == "new"
        if is_counted:
            slots.check_room(turn, project, item)
    # The task must fit into a message to a fetcher later, with its token and other fields.
    room = room_beside(item.url, item.schedule, state.config.max_message)
    if project.fetch is not None:
        room -= len(project.fetch)
    if len(item.body) > room:
        raise Rejected("too-large", f"body: {len(item.body)} bytes, at most {max(0, room)} are taken with this URL")
    if outcome == "deferred":
        _check_deferred(state, item)
    if item.depends_on and outcome != "merged" and outcome != "cancelled":
        edges.check_whole(turn, project, item)
        cycles.check(turn, project, item, verdict)
    _carry_out(turn, project, task, item, outcome, depth)
    if is_counted:
        slots.count_new(turn, project, item)
    if is_arrival:
        flows.note_arrival(turn, project, item.taskid)
    return outcome


def make(turn: TurnState, project: Project, item: NewTask) -> Task:
    """Make an unknown task, for which there is room; its parents have been looked up.

    Raises:
        Rejected: it waits for itself, or for a task of an unknown project.
    """
    turn.touch(project)
    task = _add(turn, project, item, 0)
    project.arm()
    return task


def push(turn: TurnState, project: Project, taskid: str, url: str, template: Template) -> None:
    """Push a task of the scheduler's own, with ``force_update``; the project's limits don't apply to it."""
    schedule = Schedule(
        template.priority, retries=template.retries, age=template.age, timeout=template.timeout, force_update=True
    )
    item = NewTask(taskid, url, schedule, turn.state.environment.pack(template.body))
    task = turn.find(project, taskid)
    _carry_out(turn, project, task, item, decide(task, schedule, turn.now.wall), 0)


def push_for_failed(turn: TurnState, project: Project, task: Task, template: Template, error: str) -> None:
    """Make the task of ``on_failure`` for one that has failed for good, unless that is such a task itself.

    Its taskid is new and can't be guessed, so nothing has to be looked up. The project's limits don't apply to it.
    """
    if task.taskid.startswith(ON_FAILURE):
        return
    state, failed = turn.state, turn.spec_of(task).url
    texts = {"taskid": task.taskid, "url": failed, "error": error}
    number = state.next_number()
    taskid = f"{ON_FAILURE}{number:x}.{unguessable(state.secret, number)}.{task.taskid}"
    taskid = taskid.encode()[:MAX_TASKID_BYTES].decode(errors="ignore")
    url = filled_start(template.url, texts, MAX_URL_CHARS) or failed
    schedule = Schedule(template.priority, retries=template.retries, age=template.age, timeout=template.timeout)
    body = state.environment.pack(filled(template.body, texts))
    made = _add(turn, project, NewTask(taskid, url, schedule, body), 0)
    if task.taskid == project.finisher:  # or the project would finish once more, and on_finished fail once more
        project.queue.set_apart(made)


def apply_deferred(turn: TurnState, project: Project, task: Task, lease: Lease) -> None:
    """Apply the ``force_update`` that was deferred until the end of the task's lease, if there is one."""
    item = lease.deferred
    if item is None:
        return
    if task.state == PROCESSING:
        raise Corrupt(f"task {task.taskid!r} is still processing")
    depth = _depth_of(task)
    outcome = decide(task, item.schedule, turn.now.wall)
    if outcome == "cancelled":
        cancel(turn, project, task)
        return
    edges.replace_edges(turn, task, lease.links)
    if outcome == "restarted":
        _begin_again(turn, project, task)
    _describe_anew(turn, project, task, item, depth)


def apply_kept(turn: TurnState, project: Project, task: Task, item: NewTask) -> None:
    """Apply the deferred update of a task that an undo has made ready, or blocked by the parents of the update.

    Its cancel has described the task so already; now the task waits until its time. The caller lets failures count that
    the task has missed.
    """
    _put_anew(turn, project, task, item, _depth_of(task))


def _depth_of(task: Task) -> int:
    return task.spec.depth if task.spec else 0


def revive(turn: TurnState, project: Project, task: Task) -> None:
    """Make a waiting or finished task ready now, with all its retries, or blocked if it has to wait for its parents."""
    task.retried = 0
    task.note_put_off(0)
    task.note_throttled(0)
    task.token = NO_TOKEN
    project.queue.withdraw(turn.changes, task)
    task.held_back = task.timed_out = False
    if task.seq <= project.cleared:  # remains of ``clear``, which a live task must not be among
        _renumber(turn, project, task)
    project.queue.put(turn.changes, task, 0.0)
    edges.look_at_parents(turn, task)
    project.arm()
    turn.touch(project)
    turn.state.want_held(project, task)


def queue_up(turn: TurnState, project: Project, task: Task) -> None:
    """Make a live task ready, behind its equals, with a new seq.

    While an operation goes through tasks it keeps its seq: with a newer one it would be skipped. It also does in a
    project that goes by newest, where no place is behind all equals, and a newer seq would put it before them.
    """
    if not turn.state.operations.running and not project.queue.newest:
        _renumber(turn, project, task)
    project.queue.put_ready(turn.changes, task)


def _renumber(turn: TurnState, project: Project, task: Task) -> None:
    """Give a task a new seq, under which its spec is written anew."""
    task.write_anew(turn.spec_of(task))
    give_seq(turn, project, task)


def give_seq(turn: TurnState, project: Project, task: Task) -> None:
    """Give a task, whose spec is to be written anew, a new seq, and take it out of its order."""
    project.queue.withdraw(turn.changes, task)
    task.renumber(turn.state.next_number())


def _carry_out(
    turn: TurnState, project: Project, task: Task | None, item: NewTask, outcome: PushOutcome, depth: int
) -> None:
    turn.touch(project)
    if task is None:
        _add(turn, project, item, depth)
    else:
        _CHANGES[outcome](turn, project, task, item, depth)
    if not project.armed:
        project.arm()


def cancel(turn: TurnState, project: Project, task: Task) -> None:
    """Cancel a task in any state; a report of its fetcher will be stale.

    Its lease ends, so a deferred update is applied: if the task lives again, it is what was pushed last.
    """
    lease = task.lease
    if task.state == PROCESSING:
        turn.revoke(task)
    turn.touch(project)
    flows.note_dropped(turn, task, dropped=False)
    if lease is not None and lease.deferred is not None:
        edges.replace_edges(turn, task, lease.links)
        _describe(turn, project, task, lease.deferred, _depth_of(task))
        project.queue.take_finished(turn.changes, task, CANCELLED, turn.now.wall)
    else:
        project.queue.finish(turn.changes, task, CANCELLED, turn.now.wall)
    task.token = NO_TOKEN


def _refuse_unreadable(turn: TurnState, project: Project, item: NewTask) -> None:
    """Refuse a known task whose state the store can't read, and a task that waits for one.

    Raises:
        Rejected: the item is or needs such a task.
    """
    for name, taskid in [(project.name, item.taskid), *edges.named(project.name, item)]:
        of = turn.state.projects.by_name.get(name)
        if of is not None and (of.number, taskid) in turn.found.unreadable and taskid not in of.queue.tasks:
            raise Rejected("damaged", f"taskid: the record of {taskid} can't be read; run: taskqueue store repair")


def _check_room(project: Project, *, bounded: bool, is_new: bool) -> None:
    settings, queue = project.settings, project.queue
    reserved = project.reserved if project.making else 0
    if bounded and queue.live + reserved >= settings.max_queue:
        raise Rejected("full", f'project "{project.name}" is full: max_queue is {settings.max_queue:g}')
    if is_new and queue.known + reserved >= settings.max_tasks:
        raise Rejected("full", f'project "{project.name}" is full: max_tasks is {settings.max_tasks:g}')


def _check_deferred(state: State, item: NewTask) -> None:
    """Check that a deferred update fits in memory, where all of them stay, however long that takes."""
    most = state.config.queue_bytes // DEFERRED_PART
    if state.memory.deferred + deferred_bytes(item) > most:
        raise Rejected(
            "full",
            f"the task is processing, and updates that wait for the ends of leases take {state.memory.deferred} bytes "
            f"already, of at most {most}; push it again when it has ended",
        )


def _add(turn: TurnState, project: Project, item: NewTask, depth: int) -> Task:
    links = edges.make_edges(turn, project, item) if item.depends_on else None
    task = Task(project.number, item.taskid, 0, 0, turn.state.next_number(), links=links, pushed_at=turn.second)
    if turn.changes.left_overs:
        edges.arrive(turn, task)
    project.totals.new += 1
    spec = _spec(item, depth)
    task.describe(spec, apart=task.taskid == project.finisher)
    if project.queue.slots is not None:
        task.enter_slot(slots.number_for(turn, project, spec.url, spec.schedule.slot))
    project.queue.put(turn.changes, task, due_at(spec.schedule, turn.now.wall))
    if links is not None:
        edges.drop_unneeded(turn, task)
    return task


def _merge(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> None:
    now = turn.now
    schedule = item.schedule
    sooner = hurries(task, schedule, now.wall)
    if schedule.priority > task.priority:
        project.queue.reprioritise(turn.changes, task, schedule.priority)
    if sooner:
        project.queue.put(turn.changes, task, due_at(schedule, now.wall))
    turn.state.want_held(project, task)


def _replace(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> None:
    _replace_parents(turn, project, task, item)
    _describe_anew(turn, project, task, item, depth)


def _replace_parents(turn: TurnState, project: Project, task: Task, item: NewTask) -> None:
    """Replace the parents of a task, unless a plain link restarts it and names none."""
    if item.depends_on or (item.schedule.force_update and task.links is not None and task.links.number):
        edges.give(turn, project, task, item)


def _describe_anew(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> None:
    _put_anew(turn, project, task, item, depth)
    edges.look_at_parents(turn, task)


def _put_anew(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> None:
    until = _describe(turn, project, task, item, depth)
    project.queue.put(turn.changes, task, until)
    edges.drop_unneeded(turn, task)


def _describe(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> float:
    """Take a task out of its order, describe it anew, and return when it is due (unix seconds; 0 for at once)."""
    task.retried = 0
    task.note_put_off(0)
    task.note_throttled(0)
    task.timed_out = False
    until = due_at(item.schedule, turn.now.wall)
    # A recurring task that has run and is described anew: it still waits for its time, as it would have by itself.
    put_off = task.state != 0 and task.apart and recurs_after(item.schedule) is not None and until > 0
    spec = _spec(item, depth)
    if item.schedule.force_update and task.spec is not None and task.spec.url == item.url:
        spec = spec.with_page(as_replaced(item.schedule, task.spec.page))
    project.queue.withdraw(turn.changes, task)
    task.token = NO_TOKEN  # not earlier: a leased task is found by it
    task.describe(spec, apart=task.taskid == project.finisher)
    task.held_back = put_off
    task.apart = task.apart or put_off
    if project.queue.slots is not None:
        task.enter_slot(slots.number_for(turn, project, item.url, item.schedule.slot))
    return until


def _restart(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> None:
    _replace_parents(turn, project, task, item)
    _begin_again(turn, project, task)
    _describe_anew(turn, project, task, item, depth)


def _begin_again(turn: TurnState, project: Project, task: Task) -> None:
    project.totals.new += 1
    give_seq(turn, project, task)


def _defer(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> None:
    if task.lease is None:
        raise Corrupt(f"task {task.taskid!r} is processing without a lease")
    edges.defer(turn, project, task, task.lease, item)
    update = _kept_until_later(item, turn.now)
    former = task.lease.deferred
    turn.state.memory.deferred_changed(deferred_bytes(update) - (deferred_bytes(former) if former is not None else 0))
    task.lease.deferred = update
    turn.changes.touch(task)


def _cancel(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> None:
    cancel(turn, project, task)


_Change = Callable[[TurnState, Project, Task, NewTask, int], None]
_CHANGES: Final[Mapping[PushOutcome, _Change]] = {
    "merged": _merge,
    "replaced": _replace,
    "restarted": _restart,
    "deferred": _defer,
    "cancelled": _cancel,
}
"""Changes of a known task, by outcome."""


def _spec(item: NewTask, depth: int) -> Spec:
    # A Raw keeps its whole frame alive, so the body is copied out, once.
    return Spec(item.url, item.schedule, item.body.copy(), depth)


def _need_page(turn: TurnState, project: Project, item: NewTask, wanted: Needs) -> None:
    """Look up the facts about the page of a task that the item may replace."""
    if not item.schedule.force_update:
        return
    task = project.queue.tasks.get(item.taskid)
    if task is None:
        wanted.whole.append(TaskRef(project.number, item.taskid))
    else:
        turn.ask(task)


def _kept_until_later(item: NewTask, now: Now) -> NewTask:
    """Copy the item with its body, and convert its delay, which counts from its arrival, to a time."""
    schedule = item.schedule
    if schedule.delay is not None:
        schedule = structs.replace(schedule, exetime=now.wall + schedule.delay, delay=None)
    return NewTask(item.taskid, item.url, schedule, item.body.copy(), item.project)


# ------------------------------------------------------------------------------------------------ traps


TRAP_URL_CHARS: Final = 200
"""Characters of a URL that an event shows, at most."""

_WORDS: Final[dict[TrapKind, tuple[str, str]]] = {
    "repeated": (
        "have a part that occurs four times or more",
        "exclude such links, or set max_depth; a relative link or a login that returns to itself may make them",
    ),
    "session": (
        "have an id that each page makes anew for all of its links, such as one of a session",
        "push URLs without that parameter",
    ),
    "deep": (
        "lie more than 30 links deep, each like the page that led to it, as in a calendar",
        "set max_depth, or exclude such links",
    ),
    "combined": (
        "combine parts of known URLs in new ways, such as filters of a search",
        "exclude such links, or set max_depth",
    ),
}
"""Descriptions of traps, and remedies for the operator, by kind."""


def look_for_trap(
    turn: TurnState, project: Project, items: Sequence[NewTask | None], index: int, origin: Spec | None
) -> None:
    """Check a new task of a batch for a trap.

    Args:
        project: project of the task.
        origin: spec of the task that led to the batch; None if a producer pushed it.
    """
    project.sampling.go_on(project.totals.new)
    item = items[index]
    if item is None:
        return
    # A project without slots counts as one slot with an empty name.
    slot = slots.name_of(turn, project, item.url, item.schedule.slot) if project.settings.slot.by != "none" else ""
    windows = turn.state.traps.of(project.number, slot, int(min(SAMPLES, project.settings.growing)))
    if origin is None:
        finding = windows.look(item.url, 0)
    else:
        finding = windows.look(item.url, origin.depth + 1, origin.url, _sibling(items, index))
    if finding is not None and project.note_growing(slot, turn.now.wall):
        turn.emit("growing", project, _trap_reason(project, slot, finding))


def _sibling(items: Sequence[NewTask | None], index: int) -> str:
    """Return the URL of the first or the last item of a batch, whichever is farther away; empty if there is no other.

    Neighbours often belong together, such as a document and its history, which have the same id.
    """
    other = items[0] if 2 * index >= len(items) else items[-1]
    return other.url if other is not None and len(items) > 1 else ""


def _trap_reason(project: Project, slot: str, finding: Finding) -> str:
    does, remedy = _WORDS[finding.kind]
    whole = f'slot "{slot}"' if slot else "the project"
    tasks = max(finding.looked_at, round(finding.looked_at * project.settings.growing / SAMPLES))
    url = finding.url if len(finding.url) <= TRAP_URL_CHARS else finding.url[:TRAP_URL_CHARS] + "…"
    return (
        f"{whole} seems to grow without end: of the last {tasks} new tasks about {finding.share:.0%} {does} "
        f"({finding.kind}), such as {url} - {remedy}"
    )
