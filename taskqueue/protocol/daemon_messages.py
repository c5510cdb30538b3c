"""How the daemon itself is: its process, its turns, its memory, its store."""

from __future__ import annotations

from msgspec import Struct

from taskqueue.protocol.crawl_requests import Request
from taskqueue.protocol.reply import Reply


class DaemonShow(Request, tag="daemon-show"):
    """How is the daemon itself? Costs the same however many projects there are."""


class HistogramView(Struct, omit_defaults=True, gc=False):
    """How often something was how large, since the daemon began its epoch or since it was started.

    Attributes:
        bounds: of the classes, ascending; what is as large as a bound belongs to its class.
        counts: of each class, those of the ones before it not included; one more than bounds, for what is larger.
        sum: of all values.
    """

    bounds: list[float]
    counts: list[int]
    sum: float = 0.0


class LevelView(Struct, omit_defaults=True, gc=False):
    """The tables of one level of the store, of all its families."""

    level: int
    tables: int
    bytes: int


class DaemonReply(Reply, tag="daemon-reply", omit_defaults=True):
    """Answers ``daemon-show``.

    Attributes:
        version, python: of the daemon's software, and of the Python that runs it.
        compiled: the core is compiled; else it is interpreted.
        durability: when replies leave: commit, interval or none.
        projects, sessions: that it knows.
        fetchers: that want, hold or run tasks; ``capacity``, ``holds`` and ``hung`` are theirs in all.
        task_bytes: memory of queues and leases; the queues may take ``task_bytes_most``.
        resident_bytes: memory of the process, which may take ``resident_bytes_most``; 0: unknown.
        database: that the store lies in, without its password; empty: it lies in a folder.
        levels: of the store in a folder, those that have tables.
        free_bytes: of the store's disk; None: unknown, as that of a database is.
        has_room: no: fewer are free than ``store.min_free`` demands, so nothing is taken or handed out.
        shell: counters of the process around the core, as in ``status-reply``.
        histograms: turn_seconds, commit_seconds, sync_seconds, turn_tasks, attempt_seconds, lateness_seconds.
    """

    epoch: int
    version: str = ""
    python: str = ""
    compiled: bool = False
    pid: int = 0
    uptime_seconds: float = 0.0
    durability: str = ""
    projects: int = 0
    sessions: int = 0
    fetchers: int = 0
    capacity: int = 0
    holds: int = 0
    hung: int = 0
    task_bytes: int = 0
    task_bytes_most: int = 0
    resident_bytes: int = 0
    resident_bytes_most: int = 0
    database: str = ""
    levels: list[LevelView] = []
    free_bytes: int | None = None
    has_room: bool = True
    shell: dict[str, float] = {}
    histograms: dict[str, HistogramView] = {}
