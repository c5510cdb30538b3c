"""Tasks and projects out of an export, as values for its two importers: that of a store, and that of a daemon.

ExportedTask ──► Task, with a new seq, without edges        processing ──► ready; a deferred update is applied
             └─► its attempts, in its history; a final success in its order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from taskqueue.core.model.attempt_records import as_kept
from taskqueue.core.model.records import REASON_CHARS, TICKS_MOST, KeptAttempt
from taskqueue.core.model.recrawl_interval import as_replaced
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    DELAYED,
    LIVE,
    PROCESSING,
    READY,
    RETRIED_MOST,
    STATE_NAMES,
    SUCCESS,
    TASK_BYTES,
    Task,
    size_of,
)
from taskqueue.protocol.exports import COUNTED_MOST, TOTALS_MOST, ExportedTask, ExportedUpdate
from taskqueue.protocol.fields import (
    MAX_EPOCH_SECONDS,
    MAX_ERROR_CHARS,
    MAX_KIND_CHARS,
    MAX_RESULT_BYTES,
    MAX_TASKID_BYTES,
    NIL,
)
from taskqueue.protocol.values import Attempt, CronRecord, EventTotals, PauseRecord
from taskqueue.settings.own_tasks import MAX_TICK

FETCHER_CHARS: Final = 128
"""Longest name of a fetcher, or pseudonym."""

_LENGTHS: Final = {"reason": REASON_CHARS, "taskid": MAX_TASKID_BYTES, "problem": REASON_CHARS, "waiting": TICKS_MOST}
"""Characters of the texts, and items of the lists, of a project's pause and cron entries, at most."""


def flaw_of(task: ExportedTask) -> str:
    """Return why a task of an export can't be, naming the field where it is one; empty if it can."""
    if task.bare and STATE_NAMES.index(task.state) in LIVE:
        return f"a task that is {task.state} can't be bare"
    if not task.bare and not task.url:
        return "there is no url"
    if len(task.taskid.encode()) > MAX_TASKID_BYTES:
        return f"taskid: expected at most {MAX_TASKID_BYTES} bytes"
    if any(len(parent.taskid.encode()) > MAX_TASKID_BYTES for parent in task.parents):
        return f"parents: expected taskids of at most {MAX_TASKID_BYTES} bytes"
    if task.deferred is not None and task.state != "processing":
        return f"deferred: a task that is {task.state} can't have an update that waits"
    if task.bare and task.result != NIL:
        return "a bare task can't have a result"
    if len(task.result) > MAX_RESULT_BYTES:
        return f"result: {len(task.result):,} bytes; at most {MAX_RESULT_BYTES:,} are allowed"
    if task.bare and task.attempts:
        return "a bare task can't have attempts"
    if len(task.attempts) > ATTEMPTS_KEPT:
        return f"attempts: {len(task.attempts):,}; at most {ATTEMPTS_KEPT} are kept"
    if not all(map(_can_be, task.attempts)):
        return f"attempts: expected times from 0 to {MAX_EPOCH_SECONDS:g}, and short texts"
    return ""


def _can_be(attempt: Attempt) -> bool:
    has_times = all(0 <= each <= MAX_EPOCH_SECONDS for each in (attempt.at, attempt.seconds))
    is_short = len(attempt.error) <= MAX_ERROR_CHARS and len(attempt.kind) <= MAX_KIND_CHARS
    return has_times and is_short and len(attempt.fetcher) <= FETCHER_CHARS


def made_task(said: ExportedTask, project: int, seq: int) -> tuple[Task, int]:
    """Make a task without flaws, in no order and without edges; return it with the state that it is to have.

    Its body is copied.
    """
    state = STATE_NAMES.index(said.state)
    if said.bare:
        return _task(said, project, seq, None), state
    spec = Spec(said.url, said.schedule, said.body.copy(), said.depth, said.page)
    if state != PROCESSING:
        return _task(said, project, seq, spec), state
    if said.deferred is None:
        return _task(replace(said, exetime=0.0), project, seq, spec), READY
    return _with_update(said, said.deferred, project, seq), DELAYED if said.deferred.schedule.exetime else READY


def kept_attempts(task: Task, state: int, attempts: Sequence[Attempt]) -> list[KeptAttempt]:
    """Give a new task, which is to have that state, its attempts; return those that belong into its history.

    A final success is not among them: the task has it, for its place in the order of successes.
    """
    history = [as_kept(each) if each.error or each.kind else each for each in attempts]
    task.attempts = len(history) % ATTEMPTS_KEPT
    if state == SUCCESS and history and history[-1].outcome == "success":
        task.ended = history.pop()
    return [KeptAttempt(task.project, task.taskid, index, each) for index, each in enumerate(history)]


def _task(said: ExportedTask, project: int, seq: int, spec: Spec | None) -> Task:
    return Task(
        project, said.taskid, 0, 0, seq, said.priority, said.exetime,
        retried=min(said.retried, RETRIED_MOST), lastcrawltime=said.lastcrawltime, held_back=said.held_back,
        timed_out=said.timed_out, apart=said.apart, itag=said.itag, spec=spec,
        size=TASK_BYTES if spec is None else size_of(spec), bare=said.bare, has_result=said.result != NIL,
        pushed_at=said.pushed_at, job=said.job,
    )  # fmt: skip


def _with_update(said: ExportedTask, update: ExportedUpdate, project: int, seq: int) -> Task:
    """Apply a deferred update as if it replaced a waiting task; its delay is a time already."""
    schedule = update.schedule
    page = as_replaced(schedule, said.page) if update.url == said.url else None
    replaced = replace(
        said, priority=schedule.priority, itag=schedule.itag or "", job=schedule.job or "",
        exetime=schedule.exetime, retried=0, held_back=False, timed_out=False,
    )  # fmt: skip
    return _task(replaced, project, seq, Spec(update.url, schedule, update.body.copy(), said.depth, page))


def check_records(totals: EventTotals | None, pause: PauseRecord | None, cron: Mapping[str, CronRecord]) -> None:
    """Check that a daemon can go on from the records of an exported project.

    Raises:
        ValueError: a number is negative or implausibly large, or a text or list is longer than the daemon makes any.
    """
    records = {"totals": totals, "pause": pause} | {f"cron.{entry}": each for entry, each in cron.items()}
    for name, record in records.items():
        most_counted = TOTALS_MOST if name == "totals" else COUNTED_MOST
        for field, said in ({} if record is None else msgspec.structs.asdict(record)).items():
            # The names and taskids of the flow that a tick submits have room for its digits, but not for more.
            most_seconds = float(MAX_TICK) if field == "waiting" else MAX_EPOCH_SECONDS
            if isinstance(said, str | list) and len(said) > _LENGTHS[field]:
                raise ValueError(f"{name}.{field}: {len(said):,} is too long; at most {_LENGTHS[field]} can be there")
            for value in said if isinstance(said, list) else [said]:
                most = most_seconds if isinstance(value, float) else most_counted
                if isinstance(value, int | float) and not 0 <= value <= most:
                    raise ValueError(f"{name}.{field}: expected a number from 0 to {most:,}")
