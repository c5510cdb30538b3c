"""Ends of leases: done, failed, run out, or given back.

    processing ──ok──────────────────► success        (recurring: delayed until it is due again)
               ──not ok, run out─────► ready, delayed or failed: see ``retry``
               ──released, lost──────► ready, no retry used up
               ──fetcher silent──────► ready behind its equals; if it is to blame, as if not ok: see ``dispatch``

An answer counts if and only if its token is that of the task, which it uses up: a second answer is stale. Running out
of time leaves the token, so a late success counts unless the task was dispatched again; a late failure changes
nothing. A success that counts replaces the task's result, or leaves it with none.

A failure may say how the next attempt differs (``again``): the task keeps its seq, and a deferred update wins over it.
Each failed attempt is stored twice (``_record_failure``): in the history of its task, and in the order of all failures.

A part of a report ends no lease: its new tasks are accepted if a success with the part's token would count.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.attempt_records import Failure, KeptFailure, kind_of
from taskqueue.core.model.hashes import jitter
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.pause import CHECKS
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import REASON_CHARS
from taskqueue.core.model.recrawl_interval import NOTHING_SAID, after_success, recurs_after
from taskqueue.core.model.retry import (
    THROTTLED_MOST,
    Retry,
    after_failure,
    after_put_off,
    after_throttle,
    after_timeout,
    delay_after,
    gives_up,
)
from taskqueue.core.model.session import Session
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import DELAYED, FAILED, NO_TOKEN, PROCESSING, READY, RETRIED_MOST, Task
from taskqueue.core.moves import disk_full, slots
from taskqueue.core.moves.push import apply_deferred, give_seq, item_code, push_for_failed, queue_up, take_batch
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.hosts.url_hosts import host_of
from taskqueue.protocol.choices import AttemptOutcome, PushOutcome
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.host_verdicts import Verdict
from taskqueue.protocol.message_room import VALIDATORS_BYTES, errors_that_fit, room_beside
from taskqueue.protocol.messages import NO_MAP, Flaws
from taskqueue.protocol.tasks import Done, DoneReply, ItemError, ReportOutcome
from taskqueue.protocol.values import Again, Attempt, PageFacts, TaskReport
from taskqueue.settings.settings import CRASHES_MOST
from taskqueue.texts.error_texts import kind_in, kind_line
from taskqueue.texts.units import duration_text

CRASHED: Final = "its fetcher fell silent while it ran"

TIMED_OUT: Final = "timeout"
"""Outcome and error of an attempt whose lease has run out."""

SLOW: Final = "four fifths of its lease have passed"


def finish_batch(turn: TurnState, session: Session, request: Done, flaws: Flaws) -> DoneReply:
    """Apply a batch of reports, each by itself, and take in the follow-ups of those that count."""
    outcomes: list[ReportOutcome] = []
    reply = DoneReply(n=request.n, outcomes=outcomes)
    has_new = any(item is not None and item.new for item in request.tasks)
    for index, item in enumerate(request.tasks):
        new: list[PushOutcome] = []
        if item is None:
            outcomes.append("rejected")
            flaw = flaws.get((index,), NO_MAP)
            reply.errors.append(ItemError(index, flaw.reason, code=item_code(flaw.code)))
        else:
            # Read before the report counts: it may apply an update that describes the task anew.
            origin, job = _origin_of(turn, item) if has_new and item.new else (None, "")
            try:
                outcomes.append(_keep(turn, item, index, reply) if item.part else finish(turn, session, item))
            except Rejected as rejected:
                outcomes.append("rejected")
                reply.errors.append(ItemError(index, rejected.reason))
            if has_new and item.new and (outcomes[-1] == "done" or outcomes[-1] == "kept"):
                new, errors = take_batch(turn, item.project, item.new, flaws, (index,), origin, job)
                reply.errors += errors
        if has_new:
            reply.new.append(new)
    if reply.errors:
        known = len(outcomes) + sum(map(len, reply.new))
        reply.errors = errors_that_fit(reply.errors, known, len(reply.new), turn.state.config.max_message)
    return reply


def finish(turn: TurnState, session: Session, item: TaskReport) -> ReportOutcome:
    """Apply a fetcher's report on a task.

    Raises:
        Rejected: the body of its next attempt is too large; nothing has changed.
    """
    state = turn.state
    if session.ended and session.ended.pop(item.token, None) is not None:
        state.memory.ended_changed(-1)
        turn.freed[session.id] = session
    project = state.projects.by_name.get(item.project)
    task = turn.find(project, item.taskid) if project else None
    token = item.token
    if project is None or task is None or not token or task.token != token:
        return "stale"
    if task.state == PROCESSING:
        if item.again is not None:
            _check_body(turn, project, task, item.again)
        _end(turn, session, project, task, item)
    elif item.ok and (task.state == READY or task.state == DELAYED):
        turn.touch(project)
        task.crashes = 0
        slots.apply_report(turn, project, task, item)
        # Its record by taskid must show this even if the same turn makes it ready and dispatches it.
        task.write_anew(turn.spec_of(task))
        _succeed(turn, project, task, Attempt(turn.now.wall, "success", session.label), item)
    else:
        return "stale"
    if item.ok and (item.result is not NIL or (task.has_result and not _says_unchanged(item))):
        turn.changes.keep_result(task, item.result)
    task.token = NO_TOKEN
    if session.rest_seconds:
        session.work_counts()
        turn.freed[session.id] = session
    return "done"


def _says_unchanged(item: TaskReport) -> bool:
    return item.fetched is not None and item.fetched.changed is False


def _keep(turn: TurnState, item: TaskReport, index: int, reply: DoneReply) -> ReportOutcome:
    """Apply part of a report; refuse it while the disk is nearly full."""
    if not turn.state.config.has_room:
        reply.errors.append(ItemError(index, disk_full.REASON))
        return "rejected"
    return keep_part(turn, item)


def keep_part(turn: TurnState, item: TaskReport) -> ReportOutcome:
    """Return "kept" if a success with the token of this part of a report would count, else "stale"; change nothing."""
    project = turn.state.projects.by_name.get(item.project)
    task = turn.find(project, item.taskid) if project else None
    if task is None or not item.token or task.token != item.token:
        return "stale"
    return "kept" if task.state == PROCESSING or task.state == READY or task.state == DELAYED else "stale"


def expire(turn: TurnState, project: Project, task: Task) -> None:
    """End a lease that has run out: a failure with the reason ``timeout``."""
    retry = after_timeout(turn.spec_of(task), project.settings, task.retried, timed_out=task.timed_out)
    lease = _lease_of(turn, project, task)
    session = turn.revoke(task, timed_out=True)
    task.timed_out = True
    task.note_throttled(0)
    project.totals.timeout += 1
    _record_failure(turn, task, _attempt(turn, project, lease, session, TIMED_OUT, TIMED_OUT))
    _retry(turn, project, task, retry, TIMED_OUT)
    _fail_project(turn, project, lease, TIMED_OUT)
    apply_deferred(turn, project, task, lease)


def note_slow(turn: TurnState, project: Project, task: Task, lease: Lease) -> None:
    """Note in the history of a task that four fifths of its lease have passed; the lease goes on."""
    session = turn.state.sessions[lease.session]
    session.count_slow(1)
    project.count_slow(1)
    project.queue.note_slow(turn.changes, task)
    seconds = turn.now.boot - lease.selected_at
    turn.note_attempt(task, Attempt(turn.now.wall, "slow", session.label, seconds, SLOW))
    if project.note_slow(turn.now.boot):
        ran = f"has run for {duration_text(seconds)} at {session.label}"
        turn.emit("slow", project, f"task {task.taskid!r} {ran}: {SLOW}")


def give_back(turn: TurnState, project: Project, task: Task) -> None:
    """Make a task that was not run ready in its former place, without using up a retry."""
    lease = _lease_of(turn, project, task)
    turn.unlease(task)
    _wait_again(turn, project, task, lease)


def take_back(turn: TurnState, session: Session, project: Project, task: Task) -> None:
    """Take back a task that the session reports as not started; it may have been dispatched to another session."""
    lease = _lease_of(turn, project, task)
    _end_by(turn, session, task, lease)
    _wait_again(turn, project, task, lease)


def crash(turn: TurnState, project: Project, task: Task, *, to_blame: bool) -> None:
    """Record that the task's fetcher went silent while it ran.

    Args:
        to_blame: True to count it as a failure if there were too many crashes.
    """
    now = turn.now
    settings = project.settings
    lease = _lease_of(turn, project, task)
    session = turn.unlease(task)
    crashes = task.crashes + 1
    seconds = now.boot - lease.selected_at
    _record_failure(turn, task, Attempt(now.wall, "crashed", session.label, seconds, CRASHED))
    if to_blame and crashes >= settings.max_crashes:
        # The next crash is its failure again.
        task.crashes = min(settings.max_crashes, CRASHES_MOST) - 1
        _retry(turn, project, task, after_failure(turn.spec_of(task), settings, task.retried), CRASHED)
        _fail_project(turn, project, lease, CRASHED)
    else:
        task.crashes = min(crashes, max(1, settings.max_crashes - 1))
        queue_up(turn, project, task)
    apply_deferred(turn, project, task, lease)


def lose(turn: TurnState, project: Project, task: Task) -> None:
    """Make a task whose fetcher went silent before it ran ready, behind its equals."""
    lease = _lease_of(turn, project, task)
    turn.unlease(task)
    queue_up(turn, project, task)
    apply_deferred(turn, project, task, lease)


def _wait_again(turn: TurnState, project: Project, task: Task, lease: Lease) -> None:
    project.queue.put_ready(turn.changes, task)
    turn.state.hollow.want(task)
    apply_deferred(turn, project, task, lease)


def _end(turn: TurnState, session: Session, project: Project, task: Task, item: TaskReport) -> None:
    lease = _lease_of(turn, project, task)
    holder = _end_by(turn, session, task, lease)
    task.crashes = 0
    verdict = slots.apply_report(turn, project, task, item) if task.slot else "answered"
    if item.ok:
        _succeed(turn, project, task, _attempt(turn, project, lease, holder, "success"), item)
    else:
        kind = kind_line(item.kind) or kind_in(item.error)
        _record_failure(turn, task, _attempt(turn, project, lease, holder, "failed", item.error, kind))
        _fail(turn, project, task, item, lease, verdict, kind)
    if lease.deferred is not None:  # most leases have none: no call for them
        apply_deferred(turn, project, task, lease)


def _lease_of(turn: TurnState, project: Project, task: Task) -> Lease:
    """Return the lease that is to end; the caller applies its deferred update."""
    lease = task.lease
    if lease is None:
        raise Corrupt(f"task {task.taskid!r} has no lease to end")
    turn.touch(project)
    return lease


def _end_by(turn: TurnState, session: Session, task: Task, lease: Lease) -> Session:
    """End the lease as the session reports; another session's fetcher may still run the task."""
    return turn.unlease(task) if lease.session == session.id else turn.revoke(task)


def _attempt(
    turn: TurnState,
    project: Project,
    lease: Lease,
    session: Session,
    outcome: AttemptOutcome,
    error: str = "",
    kind: str = "",
) -> Attempt:
    """Make the record of how a lease ended; add its duration to the counters of its project, and of all."""
    now, durations = turn.now, turn.state.attempt_seconds
    seconds = now.boot - lease.selected_at
    durations.counts[project.counters.took(seconds, now.wall)] += 1
    durations.sum += seconds
    if outcome == "success":
        session.done += 1
    else:
        session.failed += 1
    return Attempt(now.wall, outcome, session.label, seconds, error, kind)


def _succeed(turn: TurnState, project: Project, task: Task, attempt: Attempt, item: TaskReport) -> None:
    now = turn.now
    spec = task.spec or turn.spec_of(task)
    task.retried = 0
    if task.throttled:
        task.note_throttled(0)
    task.timed_out = False
    task.lastcrawltime = now.wall
    project.totals.success += 1
    if project.paused_itself:
        project.set_running()
        turn.emit("resumed", project, "a task has succeeded")
    project.pause.record.failures = 0
    schedule = spec.schedule
    if schedule.auto_recrawl or schedule.recrawl is not None:  # most tasks don't recur: no call for them
        interval = recurs_after(schedule, spec.page)
        if interval is not None:
            _come_again(turn, project, task, attempt, interval, item)
            return
    project.queue.succeed(turn.changes, task, attempt)


def _come_again(
    turn: TurnState, project: Project, task: Task, attempt: Attempt, interval: float, item: TaskReport
) -> None:
    """Delay a recurring task that has succeeded until its next run, after ``interval`` unless its page changes that."""
    task.note_put_off(0)
    turn.note_attempt(task, attempt)
    turn.changes.note_end(task, "succeeded")
    project.queue.set_apart(task)
    spec = turn.spec_of(task)
    if spec.schedule.repeat is not None:
        spec = spec.counted_down(spec.schedule.repeat)
        task.write_anew(spec)
    bounds = spec.schedule.recrawl
    if bounds is not None:
        page = after_success(spec.page or PageFacts(interval), bounds, item.fetched or NOTHING_SAID)
        _note_page(turn, project, task, spec, page)
        interval = page.interval * jitter(task.taskid, task.attempts)
    _hold_back(turn, project, task, turn.now.wall + interval)


def _note_page(turn: TurnState, project: Project, task: Task, spec: Spec, page: PageFacts) -> None:
    """Record the facts about the task's page, and put the task behind its equals for its next run.

    While an operation goes through tasks it keeps its seq, as in ``queue_up``.
    """
    if turn.state.operations.running:
        project.queue.withdraw(turn.changes, task)
    else:
        give_seq(turn, project, task)
    task.respecify(fitting(turn, project, spec.with_page(page)))


def fitting(turn: TurnState, project: Project, spec: Spec) -> Spec:
    """Return the spec with facts about its page only if there is room for them beside the task's body."""
    page = spec.page
    if page is None or _room_for_body(turn, project, spec) - len(spec.body) >= VALIDATORS_BYTES:
        return spec
    return spec.with_page(PageFacts(page.interval))


def _room_for_body(turn: TurnState, project: Project, spec: Spec) -> int:
    """Return the bytes that a body may have to be dispatched with this URL and schedule."""
    room = room_beside(spec.url, spec.schedule, turn.state.config.max_message)
    return room if project.fetch is None else room - len(project.fetch)


def _fail(
    turn: TurnState, project: Project, task: Task, item: TaskReport, lease: Lease, verdict: Verdict, kind: str
) -> None:
    task.timed_out = False
    throttled = task.throttled
    task.note_throttled(min(throttled + 1, THROTTLED_MOST) if verdict == "throttled" else 0)
    after = item.retry_after
    counts = None if item.again is None else item.again.counts
    if not item.retry:
        retry = None
        _pass_check(turn, project, lease)
    elif counts is None and verdict == "throttled":
        retry = after_throttle(turn.spec_of(task), project.settings, task.retried, throttled)
        _pass_check(turn, project, lease)
    elif counts is False or (counts is None and after is not None):
        task.note_put_off(task.put_off + 1)
        delay = delay_after(turn.spec_of(task), project.settings, task.retried) if after is None else after
        retry = after_put_off(delay, task.put_off)
        _pass_check(turn, project, lease)
    else:
        retry = after_failure(turn.spec_of(task), project.settings, task.retried)
        if retry is not None and after is not None:
            retry = Retry(after, True)
        if verdict != "answered":
            _pass_check(turn, project, lease)
        else:
            _fail_project(turn, project, lease, kind)
    _retry(turn, project, task, retry, kind, item.again)


def _check_body(turn: TurnState, project: Project, task: Task, again: Again) -> None:
    room = _room_for_body(turn, project, turn.spec_of(task))
    if len(again.body) > room:
        reason = f"again.body: {len(again.body)} bytes, at most {max(0, room)} are taken with this URL"
        raise Rejected("too-large", reason)


def _differ(turn: TurnState, project: Project, task: Task, again: Again) -> None:
    """Take the task out of its order, and apply the differences of its next attempt."""
    project.queue.withdraw(turn.changes, task)
    if again.priority is not None:
        task.priority = again.priority
    if again.body != NIL:
        was = turn.spec_of(task)
        spec = Spec(was.url, was.schedule, again.body.copy(), was.depth, was.page)
        task.respecify(fitting(turn, project, spec))


def _retry(
    turn: TurnState, project: Project, task: Task, retry: Retry | None, error: str, again: Again | None = None
) -> None:
    now = turn.now
    task.lastcrawltime = now.wall
    if retry is None:
        project.totals.failed += 1
        project.queue.finish(turn.changes, task, FAILED, now.wall)
        if project.settings.on_failure is not None:
            push_for_failed(turn, project, task, project.settings.on_failure, error)
        return
    project.totals.retried += 1
    if retry.counts:
        task.retried = min(task.retried + 1, RETRIED_MOST)
        task.note_put_off(0)
    schedule = turn.spec_of(task).schedule
    if recurs_after(schedule) is not None and gives_up(schedule, project.settings, task.retried):
        project.queue.set_apart(task)
    if again is not None:
        _differ(turn, project, task, again)
    if retry.delay:
        _hold_back(turn, project, task, now.wall + retry.delay)
    elif retry.behind:
        queue_up(turn, project, task)
    else:
        project.queue.put_ready(turn.changes, task)


def _fail_project(turn: TurnState, project: Project, lease: Lease, error: str) -> None:
    """Count a failure of the project, and pause it if that was one too many.

    An event is emitted for the pause only, not for every failed check phase: that may go on for days.
    """
    said = error or "no reason given"
    is_first = project.state == "running"
    if is_first and project.pause.fail(project.settings.fail_pause_num):
        failures = project.pause.record.failures
        reason = f"{failures} failure{'s' * (failures > 1)} in a row, the last one: {said}"
    elif project.state == "checking" and project.pause.fail_check(lease.check):
        reason = f"{CHECKS} checks have failed, the last one: {said}"
    else:
        return
    project.pause_itself(turn.now, reason[:REASON_CHARS])
    turn.state.wall_timers.note(("check", project.number), project.check_at())
    if is_first:
        turn.emit("paused", project, project.pause.record.reason)


def _pass_check(turn: TurnState, project: Project, lease: Lease) -> None:
    """Count a neutral check; after enough of them the project goes on."""
    if project.state == "checking" and project.pause.pass_check(lease.check):
        project.set_running()
        turn.emit("resumed", project, "the site answers")


def _hold_back(turn: TurnState, project: Project, task: Task, until: float) -> None:
    task.held_back = True
    project.queue.put_delayed(turn.changes, task, until)


def _origin_of(turn: TurnState, item: TaskReport) -> tuple[Spec | None, str]:
    """Return spec and job of a reported task; None and empty if it is unknown."""
    project = turn.state.projects.by_name.get(item.project)
    task = turn.find(project, item.taskid) if project else None
    return (None, "") if task is None else (task.spec, task.job)


def _record_failure(turn: TurnState, task: Task, attempt: Attempt) -> None:
    """Store a failed attempt in the history of its task, and in the order of failures."""
    state = turn.state
    turn.note_attempt(task, attempt)
    host = host_of(turn.spec_of(task).url, state.environment.ascii_host)
    failure = Failure(task.project, task.taskid, host, attempt.fetcher, kind_of(attempt))
    turn.changes.writes.failures.append(KeptFailure(state.failures.add(attempt.at), failure))
    state.wall_timers.note(("failures", 0), state.failures.old_at)
