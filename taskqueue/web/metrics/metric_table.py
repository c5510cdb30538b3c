"""The table of all metrics: a row each. ``exposition`` makes time series of it, ``docs/metrics.md`` explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from taskqueue.protocol.daemon import DaemonReply

PHASES: Final = ("hear", "find", "step", "keep", "reply")

Kind = Literal["counter", "gauge", "histogram"]
Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


class Metric(NamedTuple):
    """A metric of the daemon.

    Attributes:
        name: without the ``_total`` of counters.
        meaning: in a sentence.
        samples: of a daemon; none of a histogram, which has the name of one in ``DaemonReply.histograms``.
    """

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    samples: Callable[[DaemonReply], Iterable[Sample]] | None = None


def _gauge(name: str, meaning: str, field: str) -> Metric:
    return Metric(f"taskqueue_{name}", "gauge", meaning, (), lambda reply: [((), float(getattr(reply, field)))])


def _counted(name: str, meaning: str) -> Metric:
    return Metric(f"taskqueue_{name}", "counter", meaning, (), lambda reply: [((), reply.shell.get(name, 0.0))])


def _build(reply: DaemonReply) -> list[Sample]:
    return [((reply.version, reply.python, "yes" if reply.compiled else "no", reply.durability), 1.0)]


def _phases(reply: DaemonReply) -> list[Sample]:
    return [((phase,), reply.shell.get(f"{phase}_seconds", 0.0)) for phase in PHASES]


def _level_bytes(reply: DaemonReply) -> list[Sample]:
    return [((str(each.level),), each.bytes) for each in reply.levels]


def _level_tables(reply: DaemonReply) -> list[Sample]:
    return [((str(each.level),), each.tables) for each in reply.levels]


def _free_bytes(reply: DaemonReply) -> list[Sample]:
    return [] if reply.free_bytes is None else [((), reply.free_bytes)]


DAEMON: Final = (
    Metric(
        "taskqueue_build_info", "gauge", "always 1; what runs", ("version", "python", "compiled", "durability"), _build
    ),
    _gauge("uptime_seconds", "since the daemon was started", "uptime_seconds"),
    _gauge("epoch", "grows with each start, and each time that the store is read again", "epoch"),
    _gauge("sessions", "sessions that the daemon knows", "sessions"),
    _gauge("fetchers", "fetchers that want, hold or run tasks", "fetchers"),
    _gauge("fetcher_capacity", "tasks that they want at once, in all", "capacity"),
    _gauge("fetcher_holds", "tasks that they have, in all", "holds"),
    _gauge("fetcher_hung", "places of them that are held by handlers whose lease is over, in all", "hung"),
    _gauge("resident_bytes", "memory of the daemon's process", "resident_bytes"),
    _gauge("resident_limit_bytes", "memory that it may take", "resident_bytes_most"),
    _gauge("task_bytes", "memory of queues and leases", "task_bytes"),
    _gauge("task_limit_bytes", "memory that queues may take", "task_bytes_most"),
    Metric("taskqueue_store_bytes", "gauge", "size of the store's tables", ("level",), _level_bytes),
    Metric("taskqueue_store_tables", "gauge", "number of the store's tables", ("level",), _level_tables),
    Metric("taskqueue_disk_free_bytes", "gauge", "free space of the store's disk", (), _free_bytes),
    _gauge("disk_has_room", "0: less is free than store.min_free, so nothing is taken or handed out", "has_room"),
    Metric("taskqueue_phase_seconds", "counter", "where the daemon's time goes", ("phase",), _phases),
    _counted("turns", "turns of the core"),
    _counted("wakeups", "returns from sleep"),
    _counted("writes", "turns that had something to write"),
    _counted("syncs", "syncs of the log"),
    _counted("reloads", "times that the store has failed and was read again"),
    _counted("lost_turns", "acknowledged turns that a database has lost, as in a failover"),
    _counted("damaged_rows", "rows of a database that are set aside because they are damaged"),
    _counted("frames_in", "messages received"),
    _counted("frames_out", "messages sent"),
    _counted("bytes_in", "bytes of messages received"),
    _counted("bytes_out", "bytes of messages sent"),
    _counted("malformed", "messages that contain no valid request"),
    _counted("unavailable", "messages refused because the store has failed, or too many of their sender wait"),
    _counted("undelivered", "messages whose receiver was gone or did not read"),
    _counted("dropped", "messages of another version of ZeroMQ's protocol, and such as could not be received"),
    _counted("cut", "connections that the daemon has closed because they took too much"),
    _counted("silent", "connections that the daemon has closed because nothing was heard on them"),
    Metric("taskqueue_turn_seconds", "histogram", "turns: looking up, deciding, writing"),
    Metric("taskqueue_turn_tasks", "histogram", "tasks that a turn has changed something of"),
    Metric("taskqueue_commit_seconds", "histogram", "the writing of a turn"),
    Metric("taskqueue_sync_seconds", "histogram", "syncs of the log"),
    Metric("taskqueue_attempt_seconds", "histogram", "processing: from hand-out to answer or timeout"),
    Metric("taskqueue_lateness_seconds", "histogram", "of delayed tasks until they are ready, and of cron jobs"),
)

PROJECTS: Final = (
    Metric("taskqueue_tasks", "gauge", "tasks by state, now", ("project", "state")),
    Metric("taskqueue_projects", "gauge", "projects by state", ("state",)),
    Metric("taskqueue_projects_paused_themselves", "gauge", "projects that are paused because their tasks fail"),
    *(
        Metric(f"taskqueue_tasks_{event}", "counter", meaning, ("project",))
        for event, meaning in (
            ("new", "tasks that were new, or are to be run again"),
            ("selected", "tasks handed out"),
            ("success", "attempts that succeeded"),
            ("failed", "tasks that have failed for good"),
            ("retried", "attempts that failed, of tasks that have retries left"),
            ("timeout", "attempts that ran out of time; they are also failed or retried"),
        )
    ),
)

UP: Final = Metric(
    "taskqueue_up", "gauge", "1: the daemon has answered; 0: it has not, and there is nothing else of it"
)
