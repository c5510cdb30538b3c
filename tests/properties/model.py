"""What the scheduler promises, written down as naively as can be: lists that are sorted each time.

It does not choose: whom a task goes to, and which project is next, is read off what the scheduler said. It checks that
the choice was allowed (first of its project, in its time, at its pace, for somebody with room who wants it) and, when
all is quiet, that nobody waits for work that is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from taskqueue.core.messages import Finished, Handed, NewTask, Schedule
from taskqueue.core.replies import Counts
from taskqueue.core.requests import Hello

RETRIES = 2
RETRY_DELAY = (8.0, 30.0)
PROCESSING_TIMEOUT = 10 + 1 / 64
FETCHER_TIMEOUT = 20.0
OVER = ("success", "failed", "cancelled")


@dataclass
class Lease:
    """A lease; ``kept``: the deadline that the store knows, which is not written anew when a start has moved it."""

    session: str
    number: int
    deadline: float
    selected_at: float
    kept: float
    deferred: NewTask | None = None


@dataclass
class Task:
    """A task; ``at``: when it is due (delayed), in seconds since the world began, as all times here."""

    new: NewTask
    seq: int
    state: str = "ready"
    priority: int = 0
    at: float = 0.0
    retried: int = 0
    itag: str = ""
    crawled_at: float = -inf
    held_back: bool = False
    timed_out: bool = False
    token: int = 0
    lease: Lease | None = None
    fresh: bool = False

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, self.seq


@dataclass
class Project:
    rate: float
    burst: float
    state: str = "running"
    level: Fraction = Fraction(0)
    level_at: float = 0.0
    tasks: dict[str, Task] = field(default_factory=dict)

    def change(self, now: float, rate: float, burst: float) -> None:
        """Another pace from now on."""
        self.fill(now)
        self.rate, self.burst = rate, burst
        self.level = min(self.level, Fraction(burst))

    def in_state(self, *states: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.state in states]

    def fill(self, now: float) -> None:
        """Fill the bucket as it would have been, drop by drop."""
        if self.rate == inf:
            self.level = Fraction(self.burst) if now > self.level_at else self.level
        else:
            gained = Fraction(self.rate) * (Fraction(now) - Fraction(self.level_at))
            self.level = min(Fraction(self.burst), self.level + gained)
        self.level_at = now

    def may_give(self, now: float) -> bool:
        self.fill(now)
        return self.state == "running" and self.rate > 0 and (self.rate == inf or self.level >= 1)

    def token_at(self) -> float:
        if self.state != "running" or self.rate == 0:
            return inf
        return self.level_at + float(max(Fraction(0), 1 - self.level) / Fraction(self.rate)) if self.rate < inf else 0.0


@dataclass
class Session:
    """A fetcher, as far as it has been heard."""

    capacity: int = 0
    projects: list[str] | None = None
    heard_at: float = 0.0
    number: int = 0


class Model:
    """All that the scheduler ought to know; ``paces``: (rate, burst) of the projects of its config."""

    def __init__(self, paces: dict[str, tuple[float, float]]) -> None:
        self.paces = paces
        self.projects: dict[str, Project] = {}
        self.make_projects(*paces, now=0.0)
        self.sessions: dict[str, Session] = {}
        self.seq = 0

    def make_projects(self, *names: str, now: float) -> None:
        """Make those of the projects that there are not yet, running, with full buckets."""
        for name in names:
            rate, burst = self.paces[name]
            self.projects.setdefault(name, Project(rate, burst, level=Fraction(burst), level_at=now))

    # ------------------------------------------------------------------------------------ new-task

    def push(self, name: str, new: NewTask, now: float) -> str:
        """What becomes of a new task."""
        project = self.projects.get(new.project or name)
        if project is None:
            return "rejected"
        task = project.tasks.get(new.taskid)
        outcome = self._decide(task, new.schedule, now)
        if outcome in ("new", "restarted", "replaced"):
            self._put(project, new, now, keep=task if outcome == "replaced" else None, over=task)
        elif outcome == "merged" and task is not None:
            self._merge(task, new.schedule, now)
        elif outcome == "deferred" and task is not None and task.lease is not None:
            task.lease.deferred, task.lease.kept = _arrived(new, now), task.lease.deadline
        elif outcome == "cancelled" and task is not None:
            cancel(task)
        return outcome

    def _decide(self, task: Task | None, schedule: Schedule, now: float) -> str:
        if schedule.cancel:
            gone = task is None or task.state == "cancelled" or not schedule.force_update
            return "ignored" if gone else "cancelled"
        if task is None:
            return "new"
        if task.state == "processing":
            return "deferred" if schedule.force_update else "ignored"
        if task.state in OVER:
            aged = schedule.age is not None and task.crawled_at + schedule.age < now
            other = bool(schedule.itag) and schedule.itag != task.itag
            return "restarted" if schedule.force_update or aged or other else "ignored"
        if schedule.force_update:
            return "replaced"
        return "merged" if schedule.priority > task.priority or _sooner(task, schedule, now) else "ignored"

    def _put(self, project: Project, new: NewTask, now: float, keep: Task | None, over: Task | None) -> None:
        if keep is None:
            self.seq += 1
        task = Task(new, keep.seq if keep else self.seq, priority=new.schedule.priority, itag=new.schedule.itag or "")
        task.crawled_at = over.crawled_at if over else -inf
        _wait(task, _due(new.schedule, now), now)
        project.tasks[new.taskid] = task

    def _merge(self, task: Task, schedule: Schedule, now: float) -> None:
        if _sooner(task, schedule, now):
            _wait(task, _due(schedule, now), now)
        task.priority = max(task.priority, schedule.priority)

    # ------------------------------------------------------------------------------------ how leases end

    def finish(self, item: Finished, now: float) -> str:
        """Whether an answer counts."""
        project = self.projects.get(item.project)
        task = project.tasks.get(item.taskid) if project else None
        if project is None or task is None or not item.token or task.token != item.token or task.state in OVER:
            return "stale"
        if task.state != "processing" and not item.ok:
            return "stale"
        deferred = task.lease.deferred if task.lease else None
        task.lease = None
        if item.ok:
            self._succeed(task, now)
        else:
            task.timed_out = False
            self._fail(task, item, now)
        task.token = 0
        self._apply(item.project, deferred, now)
        return "done"

    def _succeed(self, task: Task, now: float) -> None:
        schedule = task.new.schedule
        task.retried, task.timed_out, task.crawled_at = 0, False, now
        if schedule.auto_recrawl and schedule.age is not None:
            task.held_back = True
            _wait(task, now + schedule.age, now)
        else:
            task.state = "success"

    def _fail(self, task: Task, item: Finished, now: float) -> None:
        if not item.retry:
            task.state, task.crawled_at = "failed", now
        elif item.retry_after is not None:
            self._hold_back(task, item.retry_after, now)
        else:
            self._retry(task, now, at_once=False)

    def _retry(self, task: Task, now: float, *, at_once: bool) -> None:
        schedule = task.new.schedule
        retries = RETRIES if schedule.retries is None else schedule.retries
        recurs = schedule.auto_recrawl and schedule.age is not None
        if task.retried >= retries and not recurs:
            task.state, task.crawled_at = "failed", now
            return
        delay = RETRY_DELAY[-1] if task.retried >= retries else RETRY_DELAY[min(task.retried, len(RETRY_DELAY) - 1)]
        task.retried += 1
        self._hold_back(task, 0 if at_once else min(delay, schedule.age or inf), now)

    def _hold_back(self, task: Task, delay: float, now: float) -> None:
        task.crawled_at = now
        task.held_back = task.held_back or delay > 0
        _wait(task, now + delay, now)

    def _apply(self, name: str, deferred: NewTask | None, now: float) -> None:
        if deferred is not None:
            self.push(name, deferred, now)

    def give_back(self, name: str, task: Task, now: float) -> None:
        """The task was not run."""
        deferred = task.lease.deferred if task.lease else None
        task.lease, task.state = None, "ready"
        self._apply(name, deferred, now)

    def expire(self, name: str, task: Task, now: float) -> None:
        """The task's lease has run out."""
        deferred = task.lease.deferred if task.lease else None
        task.lease = None
        at_once = not task.timed_out
        task.timed_out = True
        self._retry(task, now, at_once=at_once)
        self._apply(name, deferred, now)

    def leases(self, session: str | None = None) -> list[tuple[str, Task, Lease]]:
        """(project, task, lease) of a session, or of all."""
        return [
            (name, task, task.lease)
            for name, project in self.projects.items()
            for task in project.tasks.values()
            if task.lease is not None and session in (None, task.lease.session)
        ]

    # ------------------------------------------------------------------------------------ fetchers

    def hello(self, message: Hello, now: float) -> None:
        session = self.sessions.setdefault(message.session, Session())
        session.capacity, session.projects, session.heard_at = message.capacity, message.projects, now
        session.number = max(session.number, message.seen)
        for name, task, lease in self.leases(message.session):
            if lease.number <= message.seen and task.token not in message.holds:
                self.give_back(name, task, now)

    def extend(self, session: str, token: int, seconds: float | None, now: float) -> bool:
        for _, task, lease in self.leases(session):
            if task.token == token:
                lease.deadline = lease.kept = now + (seconds or task.new.schedule.timeout or PROCESSING_TIMEOUT)
                return True
        return False

    def release(self, session: str, token: int, now: float) -> bool:
        for name, task, _ in self.leases(session):
            if task.token == token:
                self.give_back(name, task, now)
                task.token = 0
                return True
        return False

    # ------------------------------------------------------------------------------------ time

    def pass_time(self, now: float) -> None:
        """Do what is due."""
        for name, task, lease in self.leases():
            if lease.deadline <= now:
                self.expire(name, task, now)
            elif self.sessions[lease.session].heard_at + FETCHER_TIMEOUT <= now:
                self.give_back(name, task, now)
            else:
                continue
            self.projects[name].tasks[task.new.taskid].fresh = True
        for session in self.sessions.values():
            if session.heard_at + FETCHER_TIMEOUT <= now:
                session.capacity = 0
        for project in self.projects.values():
            for task in project.in_state("delayed"):
                if task.at <= now:
                    task.state, task.fresh = "ready", True

    def next_event_at(self) -> float:
        """By when the scheduler must have been woken."""
        times = [task.at for project in self.projects.values() for task in project.in_state("delayed")]
        times += [lease.deadline for _, _, lease in self.leases()]
        times += [
            session.heard_at + FETCHER_TIMEOUT
            for name, session in self.sessions.items()
            if session.capacity or self.leases(name)
        ]
        for name, project in self.projects.items():
            if project.in_state("ready") and self.waiting(name):
                times.append(project.token_at())
        return min(times, default=inf)

    def age_freshness(self) -> None:
        """A moment is over: what became ready in it is as ready as anything else."""
        for project in self.projects.values():
            for task in project.tasks.values():
                task.fresh = False

    # ------------------------------------------------------------------------------------ hand-out

    def waiting(self, name: str) -> list[str]:
        """Sessions that would take a task of the project."""
        return [
            session
            for session, facts in self.sessions.items()
            if facts.capacity > len(self.leases(session)) and (facts.projects is None or name in facts.projects)
        ]

    def hand_out(self, session: str, number: int, handed: Handed, now: float) -> None:
        """The scheduler has given this task away: was that right?"""
        project = self.projects[handed.project]
        task = project.tasks[handed.taskid]
        assert task.state == "ready", f"{handed.taskid} is {task.state}"
        assert session in self.waiting(handed.project), f"{session} has no room or other wishes"
        assert project.may_give(now), f"{handed.project} has {project.level} tokens and is {project.state}"
        before = [other for other in project.in_state("ready") if other.order < task.order and not other.fresh]
        assert not before, f"{handed.taskid} overtook {before[0].new.taskid}"
        timeout = task.new.schedule.timeout or PROCESSING_TIMEOUT
        assert (handed.timeout, handed.retried, bytes(handed.body)) == (timeout, task.retried, bytes(task.new.body))
        assert handed.lastcrawltime == (0 if task.crawled_at == -inf else WALL + task.crawled_at)
        if project.rate < inf:
            project.level -= 1
        task.state, task.token = "processing", handed.token
        task.lease = Lease(session, number, now + timeout, now, now + timeout)

    def check_nobody_waits_for_work(self, now: float) -> None:
        for name, project in self.projects.items():
            if project.may_give(now) and project.in_state("ready"):
                assert not self.waiting(name), f"{self.waiting(name)} wait, {name} has work"

    def counts(self, name: str) -> Counts:
        states = Counts.__struct_fields__
        return Counts(**{state: len(self.projects[name].in_state(state)) for state in states})

    # ------------------------------------------------------------------------------------ restarts

    def restart(self, now: float, *, other_boot: bool, clean: bool) -> None:
        """What is left of it when the daemon starts again."""
        for _, _, lease in self.leases():
            length = lease.kept - lease.selected_at
            latest = now + length if other_boot else min(lease.kept, now + length)
            lease.deadline = max(latest, now + FETCHER_TIMEOUT)
            if other_boot:
                lease.selected_at, lease.kept = now, lease.deadline
        holders = {lease.session for _, _, lease in self.leases()}
        self.sessions = {
            name: Session(heard_at=now, number=max(lease.number for _, _, lease in self.leases(name)))
            for name in sorted(holders)
        }
        for project in self.projects.values() if other_boot else ():
            project.fill(now)
            project.level = project.level if clean else Fraction(0)
        self.make_projects(*self.paces, now=now)


def cancel(task: Task) -> None:
    """End a task, whatever it is."""
    task.state, task.token, task.lease = "cancelled", 0, None


def _arrived(new: NewTask, now: float) -> NewTask:
    """The same task, with the delay counted from now as a time."""
    schedule = new.schedule
    if schedule.delay is None:
        return new
    fixed = Schedule(
        priority=schedule.priority, exetime=WALL + now + schedule.delay, retries=schedule.retries, age=schedule.age,
        itag=schedule.itag, auto_recrawl=schedule.auto_recrawl, force_update=True, timeout=schedule.timeout,
    )  # fmt: skip
    return NewTask(new.taskid, new.url, fixed, new.body, new.project)


WALL = 1_700_000_000.0
"""Unix seconds at which the world began."""


def _due(schedule: Schedule, now: float) -> float:
    at = schedule.exetime - WALL if schedule.delay is None else now + schedule.delay
    return at if at > now else -inf


def _sooner(task: Task, schedule: Schedule, now: float) -> bool:
    return task.state == "delayed" and not task.held_back and _due(schedule, now) < task.at


def _wait(task: Task, until: float, now: float) -> None:
    task.state, task.at = ("delayed", until) if until > now else ("ready", -inf)
