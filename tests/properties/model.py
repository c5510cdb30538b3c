"""Naive model of the scheduler's promises: lists that are sorted each time.

It does not choose: the fetcher of each task, and the next project, are read from the scheduler's messages. It checks
that each choice was allowed (first of its project, in time, at its pace, to a fetcher with room that wants it) and,
when all is quiet, that no fetcher waits while there is work for it.

    begin_turn    work that the previous turn has left: on_finished, cron entries
    push, finish, cancel, …    one for each request
    pass_time     due work;  step    a page of an operation
    hand_out      assignments of the scheduler
    end_turn      finished projects, and waiting requests
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from copy import copy
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import count
from math import inf
from typing import Any

from msgspec.structs import replace

from taskqueue.core.model.undo_rows import OPERATIONS_MOST
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.operations import Bulk
from taskqueue.protocol.values import Again, Assignment, NewTask, Schedule, TaskCounts, TaskFilter, TaskReport
from tests.properties.records import (
    OVER,
    Attempt,
    Bucket,
    CronEntry,
    Failures,
    Lease,
    Operation,
    Project,
    Row,
    Session,
    Task,
)

RETRIES = 2
RETRY_DELAY = (8.0, 30.0)
PROCESSING_TIMEOUT = 10 + 1 / 64
FETCHER_TIMEOUT = 20.0
PAUSE_TIME = 16 + 1 / 32
CHECKS = 3
NEUTRAL_MOST = 9
PAGE_TASKS = 3
SWEPT_TASKS = 4
OLD_TASKS = 3
OLD_LATE = 60.0
"""Seconds that tasks may stay after their retention."""
WALL = 1_700_000_000.0
"""Unix seconds at which the world began."""

DEFAULTS: dict[str, Any] = {
    "retries": RETRIES,
    "retry_delay": list(RETRY_DELAY),
    "processing_timeout": PROCESSING_TIMEOUT,
    "fail_pause_num": 3,
    "pause_time": PAUSE_TIME,
    "error_burst": 5.0,
}
OTHERS: dict[str, Any] = {
    "rate": 1.0,
    "burst": 3.0,
    "max_queue": inf,
    "max_tasks": inf,
    "max_depth": inf,
    "order": "arrival",
    "max_processing": inf,
    "group": "",
    "bucket": "",
    "on_finished": None,
    "on_failure": None,
    "cron": {},
    "keep": {"success": inf, "failed": inf, "cancelled": inf, "then": "remember"},
}
"""Defaults of settings."""

_TRANSITIONS = {
    "pause": ({"running", "checking", "paused"}, "paused"),
    "resume": ({"running", "checking", "paused"}, "running"),
    "stop": ({"running", "checking", "paused", "stopped"}, "stopped"),
    "start": ({"running", "checking", "paused", "stopped"}, "running"),
}

MAX_CRASHES = 3
PERIOD = 10
"""Seconds by which failed attempts are counted."""
SLOW_EVENTS = 300.0
"""Seconds from an event of a slow task to the next one of its project."""

SENSIBLE = {
    "retry": ("delayed", *OVER),
    "cancel": ("ready", "delayed", "processing"),
    "reprioritise": ("ready", "delayed", "processing"),
    "reschedule": ("ready", "delayed"),
}


class Model:
    """Everything that the scheduler ought to know.

    ``sections`` are the projects of its config, ``buckets`` the shared ones: (rate, burst).
    """

    def __init__(self, sections: dict[str, dict[str, Any]], buckets: dict[str, tuple[float, float]]) -> None:
        self.sections = sections
        self.now = self.wall = 0.0
        self.projects: dict[str, Project] = {}
        self.shared = {name: Bucket(*pace, Fraction(pace[1]), 0.0) for name, pace in buckets.items()}
        self.sessions: dict[str, Session] = {}
        self.waiters: dict[tuple[str, str], tuple[int, float]] = {}
        self.operations: list[Operation] = []
        self.undoable: list[Operation] = []
        self.marks = count(1)
        self.answers: list[tuple[int, bool | None]] = []
        self.events: list[tuple[str, str]] = []
        self.finishing: list[Project] = []
        self.paging: Operation | None = None
        self.page: list[str] = []
        self.swept: list[tuple[Project, int, list[str], bool]] = []
        self.were_over: list[Task] = []
        self.seq = 0
        self.selected = 0
        self.make_projects(*sections)

    # ------------------------------------------------------------------------------------ projects and settings

    def make_projects(self, *names: str) -> None:
        """Create the projects that do not exist yet, running, with full buckets."""
        for name in names:
            if name not in self.projects:
                rate, burst = self.setting(name, "rate"), self.setting(name, "burst")
                self.projects[name] = Project(Bucket(rate, burst, Fraction(burst), self.now))
                self.plan_entries(name, {})

    def setting(self, name: str, key: str) -> Any:
        """Return a setting in force; tables are merged key by key."""
        project = self.projects.get(name)
        layers = [self.sections.get(name, {}), project.overrides if project else {}]
        if key == "rate" and self.setting(name, "bucket") and not any("rate" in layer for layer in layers):
            return inf
        value = DEFAULTS.get(key, OTHERS.get(key))
        for layer in layers:
            if key in layer:
                value = {**value, **layer[key]} if isinstance(value, dict) else layer[key]
        return value

    def use(self, name: str, overrides: dict[str, Any]) -> None:
        """Give a project other overrides from now on."""
        project = self.projects[name]
        before = self.setting(name, "cron")
        project.overrides = overrides
        project.bucket.change(self.now, self.setting(name, "rate"), self.setting(name, "burst"))
        if not self.setting(name, "fail_pause_num") and project.paused_itself:
            self._run(project)
        self._cap_wait(project)
        self.plan_entries(name, before)

    def _cap_wait(self, project: Project) -> None:
        """Limit each automatic pause to its time from now on, as after a step back of the clock."""
        if project.check_at is not None:
            project.check_at = min(project.check_at, self.wall + PAUSE_TIME)

    def plan_entries(self, name: str, before: dict[str, Any]) -> None:
        """Plan new and changed cron entries, and forget those that are gone."""
        project, entries = self.projects[name], self.setting(name, "cron")
        project.entries = {entry: record for entry, record in project.entries.items() if entry in entries}
        for entry, settings in entries.items():
            record = project.entries.setdefault(entry, CronEntry(settings, 0.0, self.wall))
            if before.get(entry) != settings or not record.next_at:
                record.settings, record.next_at = settings, _tick_after(settings, self.wall)

    def finisher(self, name: str) -> str:
        template = self.setting(name, "on_finished")
        return "" if template is None else template.get("taskid") or "on_finished"

    def act(self, name: str, action: str, seconds: float | None = None) -> bool:
        """Pause, resume, stop or start; return whether that is possible."""
        states, state = _TRANSITIONS[action]
        project = self.projects[name]
        if project.state not in states:
            return False
        project.state = state
        project.forget_failures()
        project.until = None if seconds is None else self.wall + seconds
        return True

    def clear(self, name: str) -> None:
        """Drop live tasks; tasks that were finished when the turn began stay known."""
        project = self.projects[name]
        was_live = bool(project.live)
        for taskid, task in list(project.tasks.items()):
            if not task.is_live:
                continue
            self.revoke(task)
            if any(task is other for other in self.were_over):
                task.end("cancelled", self.wall)
                task.token = 0
            else:
                del project.tasks[taskid]
                project.ghosts[taskid] = task.seq
        project.armed = False
        if was_live:
            self.seq += 1
            project.cleared, project.swept_to = self.seq, ""

    def reset(self, name: str) -> None:
        """Forget all tasks of a project; settings, state, pace, and sessions that wait for it or keep it open stay."""
        old = self.projects[name]
        self.revoke_all(name)
        fresh = self.projects[name] = Project(old.bucket, old.state, old.overrides)
        fresh.failures, fresh.check_at, fresh.until = old.failures, old.check_at, old.until
        fresh.phase, fresh.failed_checks, fresh.neutral_checks = old.phase, old.failed_checks, old.neutral_checks
        fresh.holds = old.holds
        self.plan_entries(name, {})

    def revoke_all(self, name: str) -> None:
        for task in self.projects[name].tasks.values():
            self.revoke(task)

    def delete(self, name: str) -> None:
        self.revoke_all(name)
        del self.projects[name]
        self.forget_waiters(name)

    def forget_waiters(self, name: str) -> None:
        for key in [key for key in self.waiters if key[0] == name]:
            self.answers.append((self.waiters.pop(key)[0], None))

    def group(self) -> list[str]:
        return sorted(name for name in self.projects if self.setting(name, "group") == "g")

    # ------------------------------------------------------------------------------------ new-task

    def push(self, name: str, new: NewTask, depth: int | None = None, job: str = "") -> str:
        """Push a new task, a follow-up of a task of this job if it has a ``depth``; return the outcome."""
        name = new.project or name
        if job and new.schedule.job is None:
            new = replace(new, schedule=replace(new.schedule, job=job))
        project = self.projects.get(name)
        if project is None:
            return "rejected"
        task = project.tasks.get(new.taskid)
        outcome = self._decide(task, new.schedule)
        if outcome == "ignored" or (depth or 0) > self.setting(name, "max_depth"):
            return "ignored"
        if outcome in ("new", "restarted") and self._is_full(name, outcome, is_pushed=depth is None):
            return "rejected"
        self._carry_out(name, task, new, outcome, depth or 0)
        return outcome

    def _is_full(self, name: str, outcome: str, *, is_pushed: bool) -> bool:
        project = self.projects[name]
        if is_pushed and len(project.live) >= self.setting(name, "max_queue"):
            return True
        return outcome == "new" and len(project.tasks) >= self.setting(name, "max_tasks")

    def _carry_out(self, name: str, task: Task | None, new: NewTask, outcome: str, depth: int) -> None:
        if outcome in ("new", "restarted", "replaced"):
            self._put(name, new, depth, keep=task if outcome == "replaced" else None, before=task)
        elif task is None:
            raise AssertionError(f"{outcome} of an unknown task")
        elif outcome == "merged":
            self._merge(task, new.schedule)
        elif outcome == "deferred" and task.lease is not None:
            task.lease.deferred, task.lease.kept = self._arrived(new), task.lease.deadline
        elif outcome == "cancelled":
            self.end(name, task)
        self.arm(name)

    def _decide(self, task: Task | None, schedule: Schedule) -> str:
        if schedule.cancel:
            gone = task is None or task.state == "cancelled" or task.bare or not schedule.force_update
            return "ignored" if gone else "cancelled"
        if task is None:
            return "new"
        if task.state == "processing":
            return "deferred" if schedule.force_update else "ignored"
        if not task.is_live:
            aged = schedule.age is not None and task.crawled_at + schedule.age < self.wall
            other = bool(schedule.itag) and schedule.itag != task.itag
            return "restarted" if schedule.force_update or aged or other else "ignored"
        if schedule.force_update:
            return "replaced"
        return "merged" if schedule.priority > task.priority or self._hurries(task, schedule) else "ignored"

    def _put(self, name: str, new: NewTask, depth: int, keep: Task | None, before: Task | None) -> None:
        project = self.projects[name]
        if keep is None:
            self.seq += 1
            project.totals.new += 1
        task = Task(new, keep.seq if keep else self.seq, priority=new.schedule.priority, itag=new.schedule.itag or "")
        if before is not None:
            task.crawled_at, task.history, task.crashes = before.crawled_at, before.history, before.crashes
            self.were_over += [task for other in self.were_over if other is before]
        due = self._due(new.schedule)
        recurs = _recurs(new.schedule)
        put_off = keep is not None and keep.apart and recurs and due > self.wall
        task.depth, task.held_back, task.job = depth, put_off, new.schedule.job or ""
        task.apart = put_off or new.taskid == self.finisher(name)
        self._wait(task, due)
        project.tasks[new.taskid] = task
        project.ghosts.pop(new.taskid, None)

    def _merge(self, task: Task, schedule: Schedule) -> None:
        if self._hurries(task, schedule):
            self._wait(task, self._due(schedule))
        task.priority = max(task.priority, schedule.priority)

    def _due(self, schedule: Schedule) -> float:
        at = schedule.exetime - WALL if schedule.delay is None else self.wall + schedule.delay
        return at if at > self.wall else -inf

    def _hurries(self, task: Task, schedule: Schedule) -> bool:
        return task.state == "delayed" and not task.held_back and self._due(schedule) < task.at

    def _wait(self, task: Task, until: float) -> None:
        task.state, task.at = ("delayed", until) if until > self.wall else ("ready", -inf)

    def _arrived(self, new: NewTask) -> NewTask:
        """Return the task with its delay, counted from now, as a time."""
        schedule = new.schedule
        if schedule.delay is None:
            return new
        fixed = Schedule(
            priority=schedule.priority, exetime=WALL + self.wall + schedule.delay, retries=schedule.retries,
            age=schedule.age, itag=schedule.itag, auto_recrawl=schedule.auto_recrawl, force_update=True,
            timeout=schedule.timeout, expires_at=schedule.expires_at, repeat=schedule.repeat, job=schedule.job,
        )  # fmt: skip
        return NewTask(new.taskid, new.url, fixed, new.body, new.project)

    # ------------------------------------------------------------------------------------ how leases end

    def below(self, item: TaskReport) -> tuple[int, str]:
        """Return the depth and the job of a task's follow-ups."""
        project = self.projects.get(item.project)
        task = project.tasks.get(item.taskid) if project else None
        return (task.depth + 1, task.job) if task else (0, "")

    def finish(self, session: str, item: TaskReport) -> str:
        """Apply a report; return whether it counts."""
        reporter = self.sessions.setdefault(session, Session())
        reporter.ended.pop(item.token, None)
        project = self.projects.get(item.project)
        task = project.tasks.get(item.taskid) if project else None
        if project is None or task is None or not item.token or task.token != item.token or not task.is_live:
            return "stale"
        if task.state != "processing" and not item.ok:
            return "stale"
        reporter.rest_until = reporter.rest_seconds = 0.0
        if task.lease is not None and task.lease.session != session:
            self.revoke(task)
        lease, task.lease = task.lease, None
        seconds = self.now - lease.selected_at if lease else 0.0
        error = "" if item.ok else item.error
        task.crashes = 0
        task.history.append(Attempt(self.wall, "success" if item.ok else "failed", max(0.0, seconds), error))
        if item.ok:
            self._succeed(item.project, task)
        else:
            task.timed_out = False
            self._fail(item, task, lease)
        task.token = 0
        self._apply(item.project, task, lease)
        return "done"

    def _succeed(self, name: str, task: Task) -> None:
        project, schedule = self.projects[name], task.new.schedule
        project.totals.success += 1
        if project.paused_itself:
            self._run(project)
            self.events.append(("resumed", name))
        project.failures = 0
        task.retried, task.timed_out, task.crawled_at = 0, False, self.wall
        task.put_off = 0
        if schedule.age is not None and _recurs(schedule):
            if schedule.repeat is not None:
                task.new = replace(task.new, schedule=replace(schedule, repeat=schedule.repeat - 1))
            task.held_back = task.apart = True
            self._wait(task, self.wall + schedule.age)
        else:
            task.end("success", self.wall)

    def _run(self, project: Project) -> None:
        project.state = "running"
        project.forget_failures()

    def _fail(self, item: TaskReport, task: Task, lease: Lease | None) -> None:
        project = self.projects[item.project]
        if not item.retry:
            self._pass_check(item.project, lease)
            self._end_failed(project, task)
        elif not (item.retry_after is None if item.again is None or item.again.counts is None else item.again.counts):
            self._pass_check(item.project, lease)
            project.totals.retried += 1
            task.put_off += 1
            delay = self._table_delay(task) if item.retry_after is None else item.retry_after
            self._differ(task, item.again)
            self._hold_back(task, delay if task.put_off < 3 else max(1.0, delay))
        else:
            self._fail_project(item.project, lease)
            self._retry(project, task, after=item.retry_after, again=item.again)

    def _table_delay(self, task: Task) -> float:
        return min(RETRY_DELAY[min(task.retried, len(RETRY_DELAY) - 1)], task.new.schedule.age or inf)

    def _differ(self, task: Task, again: Again | None) -> None:
        """Apply the differences of the next attempt."""
        if again is not None and bytes(again.body) != b"\xc0":
            task.new = replace(task.new, body=again.body)
        if again is not None and again.priority is not None:
            task.priority = again.priority

    def _pass_check(self, name: str, lease: Lease | None) -> None:
        """Count a neutral check; after enough of them the project goes on."""
        project = self.projects[name]
        if project.state == "checking" and lease is not None and lease.check == project.phase:
            project.neutral_checks += 1
            if project.neutral_checks == NEUTRAL_MOST:
                self._run(project)
                self.events.append(("resumed", name))

    def _fail_project(self, name: str, lease: Lease | None) -> None:
        """Count a failure of the project, and pause it if there are too many: only results count."""
        project, limit = self.projects[name], self.setting(name, "fail_pause_num")
        if project.state == "running":
            project.failures += 1
            if not 0 < limit <= project.failures:
                return
        elif project.state == "checking" and lease is not None and lease.check == project.phase:
            project.failed_checks += 1
            if project.failed_checks < CHECKS:
                return
        else:
            return
        if project.state == "running":
            self.events.append(("paused", name))
        project.state, project.check_at = "paused", self.wall + PAUSE_TIME

    def _end_failed(self, project: Project, task: Task) -> None:
        project.totals.failed += 1
        task.end("failed", self.wall)
        task.crawled_at = self.wall

    def _retry(self, project: Project, task: Task, *, after: float | None = None, again: Again | None = None) -> None:
        schedule = task.new.schedule
        retries = RETRIES if schedule.retries is None else schedule.retries
        recurs = _recurs(schedule)
        if task.retried >= retries and not recurs:
            self._end_failed(project, task)
            return
        project.totals.retried += 1
        table = min(RETRY_DELAY[-1], schedule.age or inf) if task.retried >= retries else self._table_delay(task)
        task.retried += 1
        self._differ(task, again)
        task.put_off = 0
        task.apart = task.apart or (recurs and task.retried > retries)
        self._hold_back(task, table if after is None else after)

    def _hold_back(self, task: Task, delay: float) -> None:
        task.crawled_at = self.wall
        task.held_back = task.held_back or delay > 0
        self._wait(task, self.wall + delay)

    def _apply(self, name: str, task: Task, lease: Lease | None) -> None:
        """Apply a deferred update."""
        if lease is not None and lease.deferred is not None:
            self._carry_out(name, task, lease.deferred, self._decide(task, lease.deferred.schedule), 0)

    def give_back(self, name: str, task: Task) -> None:
        """Return a task that was not run to its queue."""
        lease, task.lease, task.state = task.lease, None, "ready"
        self._apply(name, task, lease)

    def expire(self, name: str, task: Task) -> None:
        """End a task's lease that has run out."""
        self.revoke(task)
        lease, task.lease = task.lease, None
        assert lease is not None
        at_once = not task.timed_out
        task.timed_out = True
        self.projects[name].totals.timeout += 1
        task.history.append(Attempt(self.wall, "timeout", self.now - lease.selected_at, "timeout"))
        self._retry(self.projects[name], task, after=0.0 if at_once else None)
        self._fail_project(name, lease)
        self._apply(name, task, lease)

    def revoke(self, task: Task) -> None:
        """End the task's lease, if there is one, before its fetcher answers; its place stays occupied."""
        if task.lease is not None:
            self.sessions[task.lease.session].ended[task.token] = task.lease.number

    def end(self, name: str, task: Task) -> None:
        """Cancel a task in any state; a deferred update of it is applied before."""
        self.revoke(task)
        if task.lease is not None and task.lease.deferred is not None:
            self._put(name, task.lease.deferred, task.depth, keep=task, before=task)
            task = self.projects[name].tasks[task.new.taskid]
        task.end("cancelled", self.wall)
        task.token = 0

    def arm(self, name: str) -> None:
        """Arm the finished event, if the project has unfinished tasks."""
        project = self.projects[name]
        project.armed = project.armed or project.unfinished > 0

    def revive(self, name: str, task: Task) -> None:
        """Make a task ready now, with all its retries."""
        task.state, task.at, task.token, task.retried = "ready", -inf, 0, 0
        task.held_back = task.timed_out = False
        task.put_off = 0
        self.arm(name)

    def leases(self, session: str | None = None) -> list[tuple[str, Task, Lease]]:
        """Return (project, task, lease) of a session, or of all."""
        return [
            (name, task, task.lease)
            for name, project in self.projects.items()
            for task in project.tasks.values()
            if task.lease is not None and session in (None, task.lease.session)
        ]

    # ------------------------------------------------------------------------------------ fetchers

    def hello(self, message: Hello) -> None:
        session = self.sessions.setdefault(message.session, Session())
        session.slots = message.slots or max(1, message.capacity)
        session.priority = message.priority
        session.given_up = max(0, session.given_up + session.capacity - message.capacity)
        session.capacity, session.projects, session.heard_at = message.capacity, message.projects, self.now
        leased = {task.token for _, task, _ in self.leases(message.session)}
        mentioned = {*message.holds, *message.running}
        kept = {token: seen for token, seen in session.ended.items() if seen > message.seen or token in mentioned}
        session.ended = kept | {token: 0 for token in message.running if token not in leased}
        session.number = max(session.number, message.seen)
        for name, task, lease in self.leases(message.session):
            if lease.number <= message.seen and task.token not in message.holds:
                self.give_back(name, task)

    def extend(self, token: int, seconds: float | None) -> bool:
        for _, task, lease in self.leases():
            if task.token == token:
                lease.renew(self.now, self.now + (seconds or task.new.schedule.timeout or PROCESSING_TIMEOUT))
                lease.kept = lease.deadline
                return True
        return False

    def release(self, session: str, token: int) -> bool:
        self.sessions.setdefault(session, Session()).ended.pop(token, None)
        for name, task, lease in self.leases():
            if task.token != token:
                continue
            if lease.session == session:
                self.sessions[session].hand_back(self.now)
            else:
                self.revoke(task)
            self.give_back(name, task)
            task.token = 0
            return True
        return False

    # ------------------------------------------------------------------------------------ the end of a project

    def hold(self, name: str, session: str, seconds: float) -> None:
        holds = self.projects[name].holds
        holds.pop(session, None)
        if seconds:
            holds[session] = self.wall + seconds

    def wait(self, name: str, session: str, n: int, seconds: float) -> None:
        project = self.projects[name]
        if seconds and (project.armed or not self._is_done(project)):
            self.waiters[name, session] = n, self.now + seconds
        else:
            self.answers.append((n, not project.armed and self._is_done(project)))

    def _is_done(self, project: Project) -> bool:
        return not project.unfinished and not self._is_held(project)

    def _is_held(self, project: Project) -> bool:
        return any(until > self.wall for until in project.holds.values())

    def begin_turn(self, now: float, wall: float) -> None:
        """Begin a turn with the work that the previous one has left, and with due work."""
        self._set_clocks(now, wall)
        self.were_over = [task for project in self.projects.values() for task in project.in_state(*OVER)]
        self.page = self._read_page()
        self.swept = self._read_swept()
        for name, project in self.projects.items():
            if any(project is other for other in self.finishing) and project.armed and self._is_done(project):
                project.armed = False
                project.finished += 1
                self.events.append(("finished", name))
                self._push_own(name, self.setting(name, "on_finished"), self.finisher(name), "")
        self.finishing = []
        for name in self.projects:
            self._tick(name)

    def _set_clocks(self, now: float, wall: float) -> None:
        """Set the clocks; after a step back cron entries are planned anew, and no pause or hold is longer."""
        elapsed = now - self.now
        step = wall - self.wall - elapsed
        if step < -60:
            for project in self.projects.values():
                project.holds = {who: until + step for who, until in project.holds.items()}
                if project.check_at is not None:
                    project.check_at = min(project.check_at, wall + PAUSE_TIME)
                if project.until is not None:
                    project.until += step
                for entry in project.entries.values():
                    entry.next_at = _tick_after(entry.settings, wall - elapsed)
        self.now, self.wall = now, wall

    def _push_own(self, name: str, template: dict[str, Any] | None, taskid: str, url: str) -> None:
        if template is not None:
            schedule = Schedule(template.get("priority", 0), force_update=True)
            task = self.projects[name].tasks.get(taskid)
            new = NewTask(taskid, url or f"data:,{taskid}", schedule)
            self._carry_out(name, task, new, self._decide(task, schedule), 0)

    def _tick(self, name: str) -> None:
        for entry, record in self.projects[name].entries.items():
            if record.next_at > self.wall:
                continue
            last = self.projects[name].tasks.get(record.taskid)
            if last is not None and last.is_live:
                record.skipped += 1
            else:
                record.ran += 1
                record.taskid = f"cron.{entry}"
                self._push_own(name, record.settings.get("task", {}), record.taskid, "")
            record.last_at, record.next_at = self.wall, _tick_after(record.settings, self.wall)

    def end_turn(self) -> None:
        """Finish projects, answer requests that wait for that, and look for bursts of errors."""
        for name, project in self.projects.items():
            project.holds = {who: until for who, until in project.holds.items() if until > self.wall}
            self.arm(name)
            if project.armed and not project.unfinished and not self._is_held(project):
                self.finishing.append(project)
            for key in [key for key in self.waiters if key[0] == name]:
                if not project.armed and not self._is_held(project):
                    self.answers.append((self.waiters.pop(key)[0], self._is_done(project)))
            self._count(name, project)

    def _count(self, name: str, project: Project) -> None:
        """Count the failed attempts of a turn, one by one.

        Many within five minutes are an event, and the next one comes when fewer than half as many had failed meanwhile.
        """
        failed, limit = project.failed, self.setting(name, "error_burst")
        for _ in range(failed.count(project.totals, self._wall_period())):
            if failed.recent() < limit / 2:
                project.bursting = False
            failed.periods.append(failed.period)
            if failed.recent() >= limit and not project.bursting:
                project.bursting = True
                self.events.append(("error-burst", name))

    def _wall_period(self) -> int:
        return int((WALL + self.wall) // PERIOD)

    def save(self, name: str) -> None:
        """Keep the counted failures, as they were before this turn, in the store."""
        failed = self.projects[name].failed
        self.projects[name].saved = dataclasses.replace(failed, periods=[*failed.periods])

    # ------------------------------------------------------------------------------------ operations

    def bulk(self, request: Bulk) -> None:
        names = self.group() if request.group else [request.project or ""]
        projects = [self.projects[name] for name in names]
        at = request.exetime - WALL if request.delay is None else self.wall + request.delay
        self._begin(request.action, projects, request.filter, request.priority, at, dry_run=request.dry_run)

    def _begin(
        self,
        action: str,
        projects: list[Project],
        which: TaskFilter,
        priority: int = 0,
        at: float = 0.0,
        *,
        dry_run: bool = False,
    ) -> None:
        number = max((operation.id for operation in self.operations), default=0) + 1
        self.operations.append(Operation(number, action, projects, which, priority, at, dry_run, self.seq))

    def undo(self, operation: Operation) -> bool:
        """Begin the undo of an ended operation; return False if it can't be undone."""
        projects = {id(row.project): row.project for row in operation.rows}
        if len(projects) == 1 and not self._is_known(next(iter(projects.values()))):
            operation.rows = []
        if operation.undoes is not None or not operation.rows:
            return False
        self._begin("undo", [], TaskFilter())
        undo = self.operations[-1]
        undo.undoes, undo.rows, operation.rows = operation, operation.rows, []
        return True

    def _undo_page(self, undo: Operation) -> None:
        operation, page = undo.undoes, undo.rows[:PAGE_TASKS]
        assert operation is not None
        undo.seen += len(page)
        undo.matched += sum([self._undo_row(operation, row) for row in page])
        del undo.rows[:PAGE_TASKS]
        undo.ended = not undo.rows

    def _undo_row(self, operation: Operation, row: Row) -> bool:
        """Give a task back what it was, unless it has changed since or is gone."""
        task = row.project.tasks.get(row.taskid) if self._is_known(row.project) else None
        if task is None or task.bare or task.token != row.token or not self._is_as_left(operation, task, row.was):
            return False
        was = row.was
        if operation.action == "reprioritise":
            task.priority, task.token = was.priority, was.token
            return True
        task.retried, task.held_back, task.timed_out = was.retried, was.held_back, was.timed_out
        task.put_off = was.put_off
        task.token = 0 if was.state == "processing" else was.token
        if was.state in OVER:
            task.end(was.state, was.at)
        else:
            is_later = was.state == "delayed" and was.at > self.wall
            task.state, task.at = ("delayed", was.at) if is_later else ("ready", 0.0)
            name = next(name for name, other in self.projects.items() if other is row.project)
            self._apply(name, task, was.lease)
            self.arm(name)
        return True

    def _is_as_left(self, operation: Operation, task: Task, was: Task) -> bool:
        """Return whether the task is as the operation has left it."""
        if operation.action == "cancel":
            return task.state == "cancelled"
        if operation.action == "reprioritise":
            return task.is_live and task.priority == operation.priority
        if operation.action == "retry":
            return task.state == "ready" and task.priority == was.priority
        is_due = task.state == "ready" and operation.at <= self.wall
        return task.priority == was.priority and (is_due or (task.state == "delayed" and task.at == operation.at))

    def _read_page(self) -> list[str]:
        """Return the page of the next operation, as it is before the turn."""
        self.paging = next((each for each in self.operations if not self._waits(each)), None)
        if self.paging is not None and self.paging.undoes is not None:
            return []
        if self.paging is None or not self._is_known(self.paging.projects[0]):
            return []
        return [taskid for taskid in self.paging.projects[0].stored() if taskid > self.paging.after]

    def _waits(self, operation: Operation) -> bool:
        """Return whether the operation's project must be swept first; for an undo, any project."""
        if operation.undoes is not None:
            return any(project.cleared is not None for project in self.projects.values())
        project = operation.projects[0]
        return project.cleared is not None and self._is_known(project)

    def _read_swept(self) -> list[tuple[Project, int, list[str], bool]]:
        """Return rows of (project, seq up to which it was cleared, page, whether the page is the last)."""
        swept = [project for project in self.projects.values() if project.cleared]
        most = max(1, SWEPT_TASKS // max(1, len(swept)))
        rows = []
        for project in swept:
            rest = [taskid for taskid in project.stored() if taskid > project.swept_to]
            rows.append((project, project.cleared or 0, rest[:most], len(rest) <= most))
        return rows

    def _sweep(self) -> None:
        for project, bound, page, is_all in self.swept:
            if project.cleared != bound or not self._is_known(project):
                continue
            for taskid in page:
                if project.ghosts.get(taskid, bound + 1) <= bound:
                    del project.ghosts[taskid]
            project.cleared, project.swept_to = (None, "") if is_all else (bound, page[-1])

    def _is_known(self, project: Project) -> bool:
        return any(project is other for other in self.projects.values())

    def step(self) -> None:
        """Let the next operation take its step."""
        operation = self.paging
        if operation is not None:
            self._take_step(operation)
        self._sweep()

    def _take_step(self, operation: Operation) -> None:
        self.operations = [other for other in self.operations if other is not operation]
        if not self._waits(operation):
            if operation.undoes is not None:
                self._undo_page(operation)
            else:
                self._take_page(operation, self.page)
        if operation.ended and operation.rows:
            self.undoable = [each for each in [*self.undoable, operation] if each.rows]
            for oldest in self.undoable[:-OPERATIONS_MOST]:
                oldest.rows = []
        if not operation.ended:
            self.operations.append(operation)

    def _take_page(self, operation: Operation, rest: list[str]) -> None:
        page, more = rest[:PAGE_TASKS], rest[PAGE_TASKS:]
        project = operation.projects[0]
        if self._is_known(project):
            operation.seen += len(page)
            operation.matched += sum([self._meet(operation, project, taskid) for taskid in page])
            if more:
                operation.after = page[-1]
                return
        operation.projects, operation.after = operation.projects[1:], ""
        while operation.projects and not self._has_any(operation, operation.projects[0]):
            operation.projects = operation.projects[1:]
        operation.ended = not operation.projects

    def _has_any(self, operation: Operation, project: Project) -> bool:
        """Return whether the project has a task in a state that is meant; later projects without one are skipped."""
        meant = _meant(operation)
        return self._is_known(project) and any(task.state in meant for task in project.tasks.values())

    def _meet(self, operation: Operation, project: Project, taskid: str) -> bool:
        task = project.tasks.get(taskid)
        if task is None or task.seq > operation.bound or not self._matches(operation, task):
            return False
        if not operation.dry_run:
            self._change(operation, project, task)
        return True

    def _matches(self, operation: Operation, task: Task) -> bool:
        wanted = operation.filter
        if task.bare or task.state not in _meant(operation):
            return False
        if wanted.job and task.job != wanted.job:
            return False
        if wanted.before and not WALL + (task.crawled_at if task.is_live else task.at) < wanted.before:
            return False
        if wanted.error and not fnmatchcase(task.history[-1].error if task.history else "", wanted.error):
            return False
        return not wanted.url or fnmatchcase(task.new.url, wanted.url)

    def _change(self, operation: Operation, project: Project, task: Task) -> None:
        was = dataclasses.replace(task)
        self._change_task(operation, project, task)
        task = project.tasks[task.new.taskid]
        if operation.action in ("retry", "cancel") or not was.token:
            task.token = -next(self.marks)
        operation.rows.append(Row(project, task.new.taskid, was, task.token))

    def _change_task(self, operation: Operation, project: Project, task: Task) -> None:
        name = next(name for name, other in self.projects.items() if other is project)
        if operation.action == "retry":
            self.revive(name, task)
        elif operation.action == "cancel":
            self.end(name, task)
        elif operation.action == "reprioritise":
            task.priority = operation.priority
        else:
            task.state, task.at = ("delayed", operation.at) if operation.at > self.wall else ("ready", 0.0)

    # ------------------------------------------------------------------------------------ time

    def pass_time(self) -> None:
        """Do due work."""
        for name, task, lease in self.leases():
            if lease.deadline <= self.now:
                self.expire(name, task)
                self.projects[name].tasks[task.new.taskid].fresh = True
            elif lease.slow_at <= self.now:
                lease.slow_at, lease.kept = inf, lease.deadline
                error = "four fifths of its lease have passed"
                task.history.append(Attempt(self.wall, "slow", self.now - lease.selected_at, error))
                self._tell_slow(name)
        for id_, session in sorted(self.sessions.items(), key=lambda row: (row[1].heard_at, row[0])):
            if session.heard_at + FETCHER_TIMEOUT <= self.now:
                self._fall_silent(id_, session)
        for key, (n, until) in list(self.waiters.items()):
            if until <= self.now:
                del self.waiters[key]
                project = self.projects[key[0]]
                self.answers.append((n, not project.armed and self._is_done(project)))
        for name, project in self.projects.items():
            self._pass_wall_time(name, project)

    def _tell_slow(self, name: str) -> None:
        """Report a slow task, once in five minutes."""
        project = self.projects[name]
        if project.slow_until <= self.now:
            project.slow_until = self.now + SLOW_EVENTS
            self.events.append(("slow", name))

    def _fall_silent(self, name: str, session: Session) -> None:
        """Put the leases of a silent fetcher behind their equals."""
        session.capacity = 0
        session.ended.clear()
        held = sorted(self.leases(name), key=lambda row: row[2].place)
        started = [task for _, task, _ in held[: session.slots]]
        suspects = [task for task in started if task.crashes] if len(started) > 1 else started
        for project, task, lease in held:
            failed = False
            if any(task is one for one in started):
                sole = len(suspects) == 1 and suspects[0] is task
                failed = self._crash(project, task, lease, sole=sole)
            if not failed:
                task.state = "ready"
                if not self._operates() and self.setting(project, "order") != "newest":
                    self.seq += 1
                    task.seq = self.seq
            task.lease = None
            self._apply(project, task, lease)
            self.projects[project].tasks[task.new.taskid].fresh = True

    def _operates(self) -> bool:
        """Whether an operation is under way: tasks keep their places then."""
        return any(not operation.ended for operation in self.operations)

    def _crash(self, name: str, task: Task, lease: Lease, *, sole: bool) -> bool:
        """Count a crash of a task; return whether that is a failure."""
        task.crashes += 1
        error = "its fetcher fell silent while it ran"
        task.history.append(Attempt(self.wall, "crashed", self.now - lease.selected_at, error))
        failed = sole and task.crashes >= MAX_CRASHES
        task.crashes = min(task.crashes, MAX_CRASHES - 1)
        if failed:
            task.lease = None
            self._retry(self.projects[name], task)
            self._fail_project(name, lease)
        return failed

    def _pass_wall_time(self, name: str, project: Project) -> None:
        is_anew = self.setting(name, "order") == "due" and not self._operates()
        for task in sorted(project.in_state("delayed"), key=lambda task: task.place):
            if task.at <= self.wall:
                task.state = "ready"
                if is_anew:
                    self.seq += 1
                    task.seq = self.seq
        if project.state == "paused" and project.check_at is not None and project.check_at <= self.wall:
            project.state, project.check_at = "checking", None
            project.failed_checks = project.neutral_checks = 0
            project.phase += 1

        if project.until is not None and project.until <= self.wall:
            project.state = "running"
            project.forget_failures()

    def next_event_at(self) -> float:
        """Return when the scheduler must wake at the latest."""
        times = [min(lease.slow_at, lease.deadline) for _, _, lease in self.leases()]
        times += [until for _, until in self.waiters.values()]
        times += [session.rest_until for session in self.sessions.values() if session.rest_until > self.now]
        times += [
            session.heard_at + FETCHER_TIMEOUT
            for name, session in self.sessions.items()
            if session.capacity or self.leases(name)
        ]
        for name, project in self.projects.items():
            times += [at + self.now - self.wall for at in self._wall_times(project)]
            times += [at + self.now - self.wall for at in self._old_times(name)]
            if self.takers(name) and self.room(name) > 0:
                times.append(max(bucket.token_at() for bucket in self.buckets(name)))
        return min(times, default=inf)

    def _old_times(self, name: str) -> list[float]:
        over = [task for task in self.projects[name].in_state(*OVER) if not task.bare]
        return [task.at + self.setting(name, "keep")[task.state] + OLD_LATE for task in over]

    def _wall_times(self, project: Project) -> list[float]:
        times = [task.at for task in project.in_state("delayed")]
        times += [entry.next_at for entry in project.entries.values()]
        times += [project.check_at] if project.state == "paused" and project.check_at is not None else []
        times += [] if project.until is None else [project.until]
        return times + (list(project.holds.values()) if self._is_held(project) else [])

    def drop(self, name: str, taskid: str, *, is_bare: bool) -> None:
        """Forget a finished task that is past its retention, or keep (bare) only its state."""
        project = self.projects[name]
        task = project.tasks[taskid]
        assert (task.is_live, task.bare) == (False, False)
        assert task.at + self.setting(name, "keep")[task.state] <= self.wall
        assert is_bare == (self.setting(name, "keep")["then"] == "remember")
        task.bare, task.history, task.depth, task.retried, task.crashes = True, [], 0, 0, 0
        if not is_bare:
            del project.tasks[taskid]

    def age_freshness(self) -> None:
        """End a moment: tasks that became ready in it are as ready as others."""
        for name, project in self.projects.items():
            newest = self.setting(name, "order") == "newest"
            project.is_sorting = any(task.newest != newest for task in project.tasks.values())
            for task in project.tasks.values():
                task.fresh = False
                task.newest = newest

    # ------------------------------------------------------------------------------------ dispatch

    def buckets(self, name: str) -> list[Bucket]:
        shared = self.setting(name, "bucket")
        return [self.projects[name].bucket] + ([self.shared[shared]] if shared else [])

    def room(self, name: str) -> float:
        """Return how many more tasks the project might have out, if there were tokens."""
        project = self.projects[name]
        if project.state not in ("running", "checking"):
            return 0
        room = inf if project.state == "running" else CHECKS - project.failed_checks - project.checks_out
        return float(min(room, self.setting(name, "max_processing") - len(project.in_state("processing"))))

    def may_give(self, name: str) -> bool:
        return self.room(name) > 0 and all(bucket.has_token(self.now) for bucket in self.buckets(name))

    def waiting(self, name: str) -> list[str]:
        """Return sessions that would take a task of the project."""
        return [
            session
            for session, facts in self.sessions.items()
            if facts.capacity > len(self.leases(session)) + len(facts.ended)
            and facts.rest_until <= self.now
            and (facts.projects is None or name in facts.projects)
        ]

    def may_try(self, session: str, task: Task) -> bool:
        """Return whether a fetcher may have the task beside its present suspects."""
        others = [other.crashes for _, other, _ in self.leases(session) if other.crashes]
        if task.crashes > 1:
            return max(others, default=0) <= 1
        return not task.crashes or others.count(1) < max(1, self.sessions[session].slots // 4)

    def takers(self, name: str) -> list[str]:
        """Return sessions that would take the project's first task; tasks behind a suspect may have to wait for it."""
        first = min(self.projects[name].in_state("ready"), key=lambda task: task.order, default=None)
        return [session for session in self.waiting(name) if first is not None and self.may_try(session, first)]

    def has_expired(self, task: Task) -> bool:
        expires_at = task.new.schedule.expires_at
        return expires_at is not None and expires_at - WALL <= self.wall

    def let_expire(self, task: Task) -> None:
        """Check that the scheduler was right to end the task as expired."""
        assert task.state == "ready", f"{task.new.taskid} is {task.state}"
        assert self.has_expired(task), f"{task.new.taskid} is not too old"
        task.history.append(Attempt(self.wall, "expired", 0.0, "expired before it was dispatched"))
        task.end("cancelled", self.wall)

    def hand_out(self, session: str, number: int, handed: Assignment) -> None:
        """Check that the scheduler was right to dispatch the task."""
        project = self.projects[handed.project]
        task = project.tasks[handed.taskid]
        assert task.state == "ready", f"{handed.taskid} is {task.state}"
        assert not self.has_expired(task), f"{handed.taskid} is too old"
        assert session in self.waiting(handed.project), f"{session} has no room or other wishes"
        assert self.may_try(session, task), f"{session} has other suspects than {handed.taskid}"
        assert self.may_give(handed.project), f"{handed.project} is {project.state}, {self.buckets(handed.project)}"
        newest = self.setting(handed.project, "order") == "newest"
        before = [other for other in project.in_state("ready") if other.order < task.order and not other.fresh]
        before = [other for other in before if other.newest == task.newest == newest and not project.is_sorting]
        before = [other for other in before if not self.has_expired(other) and self.may_try(session, other)]
        assert not before, f"{handed.taskid} overtook {before[0].new.taskid}"
        mine = self.sessions[session].priority
        better = [other for other in self.waiting(handed.project) if self.sessions[other].priority > mine]
        better = [other for other in better if self.may_try(other, task)]
        assert not better, f"{session} got {handed.taskid}, and {better[0]}, a better one, waited"
        timeout = task.new.schedule.timeout or PROCESSING_TIMEOUT
        assert (handed.timeout, handed.retried, bytes(handed.body)) == (timeout, task.retried, bytes(task.new.body))
        assert handed.lastcrawltime == (0 if task.crawled_at == -inf else WALL + task.crawled_at)
        for bucket in self.buckets(handed.project):
            bucket.take()
        project.totals.selected += 1
        task.state, task.token = "processing", handed.token
        self.selected += 1
        task.lease = Lease(session, number, self.now + timeout, self.now, self.now + timeout, self.selected)
        task.lease.check = project.phase if project.state == "checking" else 0

    def check_nobody_waits_for_work(self) -> None:
        for name in self.projects:
            if self.may_give(name):
                assert not self.takers(name), f"{self.takers(name)} wait, {name} has work"

    def counts(self, name: str) -> TaskCounts:
        states = TaskCounts.__struct_fields__
        return TaskCounts(**{state: len(self.projects[name].in_state(state)) for state in states})

    def listed(self, name: str, state: str) -> list[str]:
        """Return the tasks of a state in its order."""
        shown = [task for task in self.projects[name].in_state(state) if not task.bare]
        return [task.new.taskid for task in sorted(shown, key=lambda task: task.place)]

    # ------------------------------------------------------------------------------------ restarts

    def restart(self, now: float, wall: float, *, other_boot: bool, clean: bool) -> None:
        """Reduce the model to its stored part, at a start of the daemon."""
        self.now, self.wall = now, wall
        for _, _, lease in self.leases():
            length = lease.kept - lease.selected_at
            latest = now + length if other_boot else min(lease.kept, now + length)
            lease.renew(now, max(latest, now + FETCHER_TIMEOUT))
            if other_boot:
                lease.selected_at, lease.kept = now, lease.deadline
        holders = {lease.session for _, _, lease in self.leases()}
        self.sessions = {
            name: Session(heard_at=now, number=max(lease.number for _, _, lease in self.leases(name)))
            for name in sorted(holders)
        }
        buckets = [project.bucket for project in self.projects.values()] + list(self.shared.values())
        for bucket in buckets if other_boot else ():
            bucket.fill(now)
            bucket.level = bucket.level if clean else Fraction(0)
        self.waiters, self.finishing = {}, []
        self.operations.sort(key=lambda operation: operation.id)
        for project in self.projects.values():
            if project.check_at is not None:
                project.check_at = min(project.check_at, wall + PAUSE_TIME)
            self._load_failures(project)
            for entry in project.entries.values():
                since = entry.last_at if entry.settings.get("missed") == "once" else max(entry.last_at, wall - 60)
                entry.next_at = _tick_after(entry.settings, min(since, wall))
        self.make_projects(*self.sections)

    def _load_failures(self, project: Project) -> None:
        """Forget what was told, and all failures if none were saved; later ones than those saved count as of now."""
        project.slow_until, project.bursting = -inf, False
        saved = project.saved or Failures(copy(project.totals))
        failed = project.failed = dataclasses.replace(saved, periods=[*saved.periods])
        late = failed.count(project.totals, self._wall_period())
        failed.periods += [failed.period] * late


def _recurs(schedule: Schedule) -> bool:
    return schedule.auto_recrawl and schedule.age is not None and schedule.repeat != 0


def _tick_after(settings: dict[str, Any], wall: float) -> float:
    """Return the next multiple of ``every`` (whole seconds)."""
    every = int(settings["every"][:-1])
    return ((WALL + wall) // every + 1) * every - WALL


def _meant(operation: Operation) -> Container[str]:
    """Return the states in which tasks are changed."""
    return operation.filter.states or (("failed",) if operation.action == "retry" else SENSIBLE[operation.action])
