"""Import of a project from an export: ``project-import``, step by step, into a project that the daemon does not know.

    begin ──► project made, paused ──► parts, in order ──► the last one ──► whole: in the state that it was exported in

Rules:
1. A step is one commit. The project counts the parts that are there, so a step that is repeated, or overlaps with
   others, brings each part once, and none is left out. An importer that begins again goes on there.
2. A task that the project has already, because it was pushed meanwhile, stays as it is.
3. Until it is whole the project is paused, and of the actions on projects only ``delete`` acts on it, which drops the
   import. Bulk operations and reruns are refused, as they would miss the tasks that are still to come. Pushes count,
   and tasks that are there can be cancelled and retried by name.
4. Each task gets a new seq by its place in the export, from FIRST_SEQ on.
5. A processing task becomes ready, with unchanged retries; a deferred update is applied.
6. Edges are kept, see ``edges.tie``. A parent in a project that the daemon does not know is refused, and one that a
   flow which waits for others is still to make: the two might wait for each other.
7. Limits on the number of tasks do not apply; the settings must be valid, and each task must fit into a message. Facts
   about its page are left out if there is no room for them.
8. Points of the history become the project's, but for the minute and hour under way. They come in the order of their
   times, so that none counts twice. Sums over all projects stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.msgpack import Decoder

from taskqueue.core.model.cron_times import resume
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.exported_task import check_records, flaw_of, kept_attempts, made_task
from taskqueue.core.model.history import ALL, SECONDS, SLICES_MOST, KeptPoint, PointsRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.pause import imported_pause
from taskqueue.core.model.project import Project, new_record
from taskqueue.core.model.records import ImportRecord
from taskqueue.core.model.task import LIVE
from taskqueue.core.moves import change_log, edges, flows, slots
from taskqueue.core.moves.lease_end import fitting
from taskqueue.core.moves.projects import add_project, check_another, check_settings, note_pause
from taskqueue.core.request_rule import SLOW_MS, RequestRule, Who, asked_for_change
from taskqueue.core.requests.projects import check_joined
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.codec import MALFORMED
from taskqueue.protocol.exports import ExportedPoint, ExportedProject, ExportedTask, ImportReply, ProjectImport
from taskqueue.protocol.fields import NIL, Setting
from taskqueue.protocol.message_room import room_beside
from taskqueue.protocol.reasons import reason_of
from taskqueue.settings.layer_size import MAX_LAYER_BYTES
from taskqueue.settings.settings import merge

FIRST_SEQ: Final = 1
"""First seq of an import. A seq is unique in its project only, and these are below those of all epochs: so imported
tasks come before those that are pushed meanwhile, and no import uses up numbers of the daemon."""

RECORD_BYTES: Final = 128 << 10
"""Bytes of the pause and the cron entries of an imported project: each turn that touches it writes them."""

TASK_MS: Final = 0.03
"""Milliseconds that a task of a step takes, or a point, about."""

DETAIL_MS: Final = 0.01
"""Milliseconds that an attempt or a parent of a task takes, about."""

BEGIN_MS: Final = SLOW_MS / 2
"""Milliseconds that the beginning takes: its settings are checked as those of ``project-set``."""

_decode_settings: Final = Decoder(dict[str, Setting]).decode

# ------------------------------------------------------------------------------------------------ one step


def take_step(turn: TurnState, by: Who, request: ProjectImport) -> ImportReply:
    """Make the project, or bring parts of it, all or none.

    Raises:
        Rejected: the project is known and whole, or has another import under way; the parts are not those that follow;
            a setting or a task can't be taken.
    """
    project = turn.state.projects.by_name.get(request.project)
    count = len(request.tasks) + len(request.points)
    if request.begin is not None and (count or request.first):
        raise Rejected("malformed", "begin: the step that begins an import has no parts")
    if project is None:
        project = _begin(turn, by, request)
    unfinished = _import_of(request, project)
    first, end = unfinished.brought, request.first + count
    if request.first > first:
        raise Rejected("state", f"first: {first} parts are there, so the next step is not that from {request.first}")
    if end > unfinished.parts:
        raise Rejected("state", f"first: the export has {unfinished.parts} parts, and this step goes to {end}")
    skipped = first - request.first
    points = request.points[max(0, skipped - len(request.tasks)) :]
    _check_tasks(turn, project, request.tasks, skipped)
    _check_points(unfinished, request, points)
    known = 0
    for index, each in enumerate(request.tasks[skipped:], first):
        known += not _bring(turn, project, each, seq_for(unfinished, index, each))
    if points:
        _bring_points(turn, project, request, points)
        unfinished.last_points[request.every] = points[-1].at
    project.note_brought(max(first, end))
    turn.touch(project)
    if project.importing is None:
        _end(turn, by, project)
    return ImportReply(n=request.n, brought=unfinished.brought, parts=unfinished.parts, known=known)


def _import_of(request: ProjectImport, project: Project) -> ImportRecord:
    """Return the import that a step belongs to.

    Raises:
        Rejected: the project has none, or that of another export.
    """
    name, unfinished = project.name, project.importing
    if unfinished is None:
        raise Rejected(
            "state",
            f'project: there is a "{name}" already, and it is whole; to import it anew, delete it first with: '
            f"taskqueue project delete {name}",
        )
    if unfinished.export != request.export:
        raise Rejected(
            "state",
            f'export: "{name}" has the unfinished import of another file; repeat that one, or drop what is there with: '
            f"taskqueue project delete {name}",
        )
    return unfinished


def seq_for(unfinished: ImportRecord, index: int, task: ExportedTask) -> int:
    """Return the seq of a task by its place in the export; of ready tasks that come newest first they fall."""
    if unfinished.newest and task.state == "ready":
        return unfinished.first_seq + 2 * unfinished.parts - 1 - index
    return unfinished.first_seq + index


def _need(turn: TurnState, request: ProjectImport, wanted: Needs) -> None:
    by_name = turn.state.projects.by_name
    project = by_name.get(request.project)
    for each in request.tasks:
        if project is not None and each.taskid not in project.queue.tasks:
            wanted.tasks.append(TaskRef(project.number, each.taskid))
        if project is not None and not each.bare:
            slots.need_name(turn, project, each.url, each.schedule.slot, wanted)
        for name, taskid in _parents(request.project, each):
            of = by_name.get(name)
            if of is not None and taskid not in of.queue.tasks:
                wanted.tasks.append(TaskRef(of.number, taskid))
            if of is not None and of.making:
                flows.need(of, taskid, wanted)
    if request.points:
        seconds = SECONDS[request.every]
        times = tuple(point.at // seconds for point in request.points)
        wanted.points.append(PointsRef(request.session, request.n, request.every, ALL, times, 0))


def _parents(project: str, task: ExportedTask) -> Iterator[tuple[str, str]]:
    """Yield project and taskid of each parent; the project is empty if it was deleted."""
    for parent in task.parents:
        yield project if parent.project is None else parent.project, parent.taskid


# ------------------------------------------------------------------------------------------------ begin, end


def _begin(turn: TurnState, by: Who, request: ProjectImport) -> Project:
    """Make the project, paused and with an empty bucket: what it dispatched lately is unknown.

    Raises:
        Rejected: the step is not the first one, or the project can't be made.
    """
    state, now, name, said = turn.state, turn.now, request.project, request.begin
    if said is None:
        raise Rejected("unknown-project", f'project: "{name}" is unknown; its import has been dropped, or never begun')
    overrides = _settings_of(said)
    check_another(turn, name)
    check_settings(state, name, overrides)
    check_joined(turn, overrides)
    _check_records(turn, said)
    layers = state.layers(name)
    record = new_record(turn.new_project_number(), name, merge(*layers, overrides), now.boot)
    record.overrides, record.state, record.bucket_level = overrides, "paused", 0.0
    record.totals = said.totals or record.totals
    record.cron, record.finished = dict(said.cron), said.finished
    record.importing = ImportRecord(
        request.export, said.parts, FIRST_SEQ, said.newest, said.state, imported_pause(said.state, said.pause)
    )
    project = Project(record, layers, now.boot)
    add_project(turn, project)
    state.grand_totals.bring_back(project.totals.row())
    resume(project, state.environment, now)
    state.plan_cron(project)
    detail = f"began with {said.parts:,} parts of export {request.export}"
    change_log.note(turn, by, "project import", project=name, detail=detail)
    return project


def _settings_of(said: ExportedProject) -> dict[str, Setting]:
    if len(said.settings) > MAX_LAYER_BYTES:
        raise Rejected(
            "setting", f"begin.settings: {len(said.settings)} bytes; in all at most {MAX_LAYER_BYTES} are taken"
        )
    try:
        return {} if said.settings == NIL else _decode_settings(said.settings)
    except MALFORMED as error:
        raise Rejected("malformed", reason_of(error, "begin.settings")) from None


def _check_records(turn: TurnState, said: ExportedProject) -> None:
    try:
        check_records(said.totals, said.pause, said.cron)
    except ValueError as error:
        raise Rejected("malformed", f"begin.{error}") from None
    if len(turn.state.environment.pack([said.pause, said.cron])) > RECORD_BYTES:
        raise Rejected("too-large", f"begin: pause and cron take more than {RECORD_BYTES} bytes")


def _end(turn: TurnState, by: Who, project: Project) -> None:
    """Let the project, which is whole, go on as it was exported."""
    project.cap_wait(turn.now.wall)
    note_pause(turn.state, project)
    detail = f"all of it is there; {project.state}"
    change_log.note(turn, by, "project import", project=project.name, count=project.queue.known, detail=detail)


# ------------------------------------------------------------------------------------------------ tasks, points


def _check_tasks(turn: TurnState, project: Project, tasks: Sequence[ExportedTask], skipped: int) -> None:
    """Check the tasks of a step, before any is taken.

    Raises:
        Rejected: one can't be taken; the reason names its index.
    """
    for index, each in enumerate(tasks[skipped:], skipped):
        if flaw := flaw_of(each):
            raise Rejected("malformed", f"tasks[{index}]: {flaw}")
        update = each.deferred or each
        room = room_beside(update.url, update.schedule, turn.state.config.max_message)
        room -= len(project.fetch) if project.fetch is not None else 0
        if len(update.body) > room:
            said = f"{len(update.body)} bytes, at most {max(0, room)} are taken with this URL"
            raise Rejected("too-large", f"tasks[{index}].body: {said}")
        for name, taskid in _parents(project.name, each):
            if (name, taskid) == (project.name, each.taskid):
                raise Rejected("malformed", f"tasks[{index}].parents: {taskid} would wait for itself")
            of = turn.state.projects.by_name.get(name)
            if name and of is None:
                hint = f"import it first, or make it with: taskqueue project start {name}"
                raise Rejected("unknown-project", f'tasks[{index}].parents: there is no project "{name}"; {hint}')
            if of is not None and of.making:
                flows.await_task(turn, of, taskid, f"tasks[{index}].parents")
            if of is not None and (of.number, taskid) in turn.found.unreadable and taskid not in of.queue.tasks:
                reason = f"the record of {taskid} can't be read; run: taskqueue store repair"
                raise Rejected("damaged", f"tasks[{index}].parents: {reason}")


def _check_points(unfinished: ImportRecord, request: ProjectImport, points: Sequence[ExportedPoint]) -> None:
    """Check that points of the history are of later and later minutes or hours.

    Raises:
        Rejected: one is not; the reason names its index.
    """
    seconds = SECONDS[request.every]
    last = unfinished.last_points.get(request.every, -1)
    for index, point in enumerate(points, len(request.points) - len(points)):
        if point.at // seconds <= last // seconds:
            raise Rejected("malformed", f"points[{index}].at: expected a later {request.every} than that of {last}")
        last = point.at


def _bring(turn: TurnState, project: Project, said: ExportedTask, seq: int) -> bool:
    """Take in a task; return False if the project has it already."""
    if turn.find(project, said.taskid) is not None:
        return False
    changes, queue = turn.changes, project.queue
    task, state = made_task(said, project.number, seq)
    if task.spec is not None and task.spec.page is not None:
        task.respecify(fitting(turn, project, task.spec))
    if said.parents:
        marks = {ref: parent.state for ref, parent in zip(_parents(project.name, said), said.parents, strict=True)}
        task.tie(edges.tie(turn, project, said.taskid, marks, said.on_parent_failure, dropped=said.dropped))
    if changes.left_overs:
        edges.arrive(turn, task)
    changes.keep_result(task, said.result)
    changes.writes.attempts += kept_attempts(task, state, said.attempts)
    if state in LIVE:
        if queue.slots is not None and task.spec is not None:
            task.enter_slot(slots.number_for(turn, project, task.spec.url, task.spec.schedule.slot))
        queue.put(changes, task, task.exetime)
        edges.drop_unneeded(turn, task)
    else:
        queue.take_finished(changes, task, state, said.ended_at)
    return True


def _bring_points(turn: TurnState, project: Project, request: ProjectImport, points: Sequence[ExportedPoint]) -> None:
    """Take in points of the history that are not too old, nor of the minute or hour under way."""
    series, kept = turn.state.history.series[request.every], turn.changes.writes
    seconds = SECONDS[request.every]
    now = int(turn.now.wall // seconds)
    rows = {
        at: point.events for point in points if now - SLICES_MOST[request.every] < (at := point.at // seconds) < now
    }
    found = turn.found.points.get((request.session, request.n))
    sums = {} if found is None else {at: row for at, row in zip(found[0].times, found[1], strict=True) if row}
    kept.points += [KeptPoint(request.every, at, project.number, row) for at, row in rows.items()]
    kept.slices += series.bring(project.number, rows, sums)


def _milliseconds(request: ProjectImport) -> float:
    details = sum(len(task.attempts) + len(task.parents) for task in request.tasks)
    parts = len(request.tasks) + len(request.points)
    return TASK_MS * parts + DETAIL_MS * details + BEGIN_MS * bool(request.begin)


REQUESTS: Final = (
    RequestRule(
        ProjectImport,
        asked_for_change(take_step),
        _need,
        grows=True,
        slow_ms_of=_milliseconds,
    ),
)
