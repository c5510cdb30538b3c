"""Metrics of a daemon in the format of Prometheus, and whether the daemon is ready.

    Scrape ──ask──► Projects, daemon ──rows──► Activity ──series──► Exposition ──► text
           (once for all scrapes at the same time)                     │ a row of the table for each metric

A metric is a row of the table; ``docs/reference/metrics.md`` explains each. Only projects that have changed since the
previous scrape are requested. ``metric_series`` decides which project has time series of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple, get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from taskqueue import AsyncClient
from taskqueue.errors import RequestRejected, TaskQueueError
from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.daemon import STANDS_MOST, DaemonReply, DaemonShow, Histogram, WhoIs
from taskqueue.protocol.insight import ProjectPulse, Watch
from taskqueue.web.metric_series import EVENTS, STATES, Activity, PausedBy, ProjectRow

PHASES: Final = ("hear", "find", "step", "keep", "reply")

CLOSED: Final = "closed_"
"""Prefix of the daemon's counters of closed connections; the reason follows."""

Kind = Literal["counter", "gauge", "histogram"]
Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


class Metric(NamedTuple):
    """Metric of the daemon.

    Attributes:
        name: name without the ``_total`` of counters.
        meaning: help text.
        samples: makes samples of a reply; None for a histogram, see ``HISTOGRAMS``.
    """

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    samples: Callable[[DaemonReply], Iterable[Sample]] | None = None


def _gauge(name: str, meaning: str, field: str) -> Metric:
    return Metric(f"taskqueue_{name}", "gauge", meaning, (), lambda reply: [((), float(getattr(reply, field)))])


def _counted(name: str, meaning: str, key: str = "") -> Metric:
    """Make a counter of the process around the core, with this key there, or its own name."""
    key = key or name
    return Metric(f"taskqueue_{name}", "counter", meaning, (), lambda reply: [((), reply.shell.get(key, 0.0))])


def _build(reply: DaemonReply) -> list[Sample]:
    return [((reply.version, reply.python, "yes" if reply.compiled else "no", reply.durability), 1.0)]


def _phases(reply: DaemonReply) -> list[Sample]:
    return [((phase,), reply.shell.get(f"{phase}_seconds", 0.0)) for phase in PHASES]


def _closed(reply: DaemonReply) -> list[Sample]:
    found = {key.removeprefix(CLOSED): count for key, count in reply.shell.items() if key.startswith(CLOSED)}
    return [((reason.replace("_", "-"),), count) for reason, count in found.items()]


def _level_bytes(reply: DaemonReply) -> list[Sample]:
    return [((str(each.level),), each.bytes) for each in reply.levels]


def _level_tables(reply: DaemonReply) -> list[Sample]:
    return [((str(each.level),), each.tables) for each in reply.levels]


def _free_bytes(reply: DaemonReply) -> list[Sample]:
    return [] if reply.free_bytes is None else [((), reply.free_bytes)]


DAEMON_METRICS: Final = (
    Metric(
        "taskqueue_build_info", "gauge", "always 1; what runs", ("version", "python", "compiled", "durability"), _build
    ),
    _gauge("uptime_seconds", "seconds since the daemon started", "uptime_seconds"),
    _gauge("epoch", "grows with each start, and each time that the store is loaded again", "epoch"),
    _gauge("sessions", "sessions that the daemon knows", "sessions"),
    _gauge("fetchers", "fetchers that want, hold or run tasks", "fetchers"),
    _gauge("fetcher_places", "tasks that fetchers run at once, at most, in all", "capacity"),
    _gauge("fetcher_leases", "tasks that fetchers hold, in all", "holds"),
    _gauge("fetcher_places_hung", "places of fetchers occupied by handlers whose lease has ended", "hung"),
    _gauge("fetcher_leases_slow", "tasks that fetchers hold, of whose lease four fifths have passed", "slow"),
    _gauge("process_resident_bytes", "memory of the daemon's process", "resident_bytes"),
    _gauge("process_resident_limit_bytes", "memory that the daemon's process may take", "resident_bytes_most"),
    _gauge("queue_memory_bytes", "memory of queues and leases", "task_bytes"),
    _gauge("queue_memory_limit_bytes", "memory that queues may take", "task_bytes_most"),
    Metric("taskqueue_store_bytes", "gauge", "size of the store's tables", ("level",), _level_bytes),
    Metric("taskqueue_store_tables", "gauge", "number of the store's tables", ("level",), _level_tables),
    Metric("taskqueue_disk_free_bytes", "gauge", "free space of the store's disk", (), _free_bytes),
    _gauge("disk_accepts_tasks", "0: less is free than store.min_free, so nothing is taken or dispatched", "has_room"),
    Metric("taskqueue_turn_phase_seconds", "counter", "time spent in each phase of a turn", ("phase",), _phases),
    _counted("turns", "turns of the core"),
    _counted("wakeups", "returns from sleep"),
    _counted("store_commits", "turns that wrote to the store", "writes"),
    _counted("store_syncs", "syncs of the log", "syncs"),
    _counted("store_reloads", "times that the store failed and was loaded again", "reloads"),
    _counted("store_turns_lost", "acknowledged turns that a database has lost, as in a failover", "lost_turns"),
    _counted("store_rows_damaged", "damaged rows of a database that were set aside", "damaged_rows"),
    _counted("messages_received", "messages received", "frames_in"),
    _counted("messages_sent", "messages sent", "frames_out"),
    _counted("received_bytes", "bytes of messages received", "bytes_in"),
    _counted("sent_bytes", "bytes of messages sent", "bytes_out"),
    _counted("messages_malformed", "messages that contain no valid request", "malformed"),
    _counted(
        "messages_refused",
        "messages refused because the store has failed, or too many of their sender wait",
        "unavailable",
    ),
    _counted("messages_forbidden", "requests beyond the role or the projects of their sender's key", "forbidden"),
    _counted("messages_undelivered", "messages whose receiver was gone or did not read", "undelivered"),
    _counted(
        "messages_dropped",
        "messages of another version of ZeroMQ's protocol, or that could not be received",
        "dropped",
    ),
    Metric("taskqueue_connections_closed", "counter", "connections that the daemon has closed", ("reason",), _closed),
    Metric("taskqueue_turn_seconds", "histogram", "turns: looking up, deciding, writing"),
    Metric("taskqueue_turn_tasks", "histogram", "tasks that a turn has changed"),
    Metric("taskqueue_store_commit_seconds", "histogram", "writes of a turn"),
    Metric("taskqueue_store_sync_seconds", "histogram", "syncs of the log"),
    Metric("taskqueue_attempt_seconds", "histogram", "processing: from dispatch to answer or timeout"),
    Metric("taskqueue_task_lateness_seconds", "histogram", "lateness of delayed tasks and cron entries"),
)

HISTOGRAMS: Final = {
    "taskqueue_store_commit_seconds": "commit_seconds",
    "taskqueue_store_sync_seconds": "sync_seconds",
    "taskqueue_task_lateness_seconds": "lateness_seconds",
}
"""Names in ``DaemonReply.histograms`` that differ from the metric's."""

TASKS: Final = Metric("taskqueue_tasks", "gauge", "tasks by state, now", ("project", "state"))
PROJECTS: Final = Metric(
    "taskqueue_projects", "gauge", "projects by state, and by the actor that paused them", ("state", "by")
)
ACCEPTED: Final = Metric(
    "taskqueue_tasks_accepted", "counter", "tasks that were new, or are to be run again", ("project",)
)
DISPATCHED: Final = Metric("taskqueue_tasks_dispatched", "counter", "tasks dispatched to fetchers", ("project",))
ATTEMPTS: Final = Metric(
    "taskqueue_attempts", "counter", "attempts that ended, and tasks that failed with a parent", ("project", "outcome")
)
TIMEOUTS: Final = Metric(
    "taskqueue_attempt_timeouts",
    "counter",
    "attempts that timed out; they also count as failed or retried",
    ("project",),
)
IDLE: Final = Metric(
    "taskqueue_project_idle_seconds",
    "gauge",
    "seconds since its last dispatch, or since it has ready tasks, while it may dispatch; else 0",
    ("project",),
)
BACKOFFS: Final = Metric("taskqueue_slot_backoffs", "gauge", "slots in memory that back off now", ("project",))

PROJECT_METRICS: Final = (TASKS, PROJECTS, IDLE, BACKOFFS, ACCEPTED, DISPATCHED, ATTEMPTS, TIMEOUTS)
OUTCOMES: Final = ("success", "failed", "retried")
"""Events that end an attempt. Timeouts are not among them, since a sum over outcomes would count them twice."""

UP: Final = Metric(
    "taskqueue_up", "gauge", "1: the daemon has answered; 0: it has not, and its other metrics are missing"
)

# ---------------------------------------------------------------------------------------------------- asking the daemon

SOONEST_SECONDS: Final = 0.5
"""Time between two requests to the daemon, for any number of scrapers."""

PATIENCE_SECONDS: Final = 5.0
"""Longest wait for the daemon's answer to a scrape; Prometheus waits for ten by default."""

READY_SECONDS: Final = 2.0
"""Longest wait for the daemon to be ready; while it loads its store it refuses, and the client asks again."""


class Scrape:
    """Metrics of one daemon, in a registry of its own.

    Args:
        most: projects that have series of their own, at most; None: metrics are switched off.
    """

    def __init__(self, client: AsyncClient, most: int | None) -> None:
        self.is_on = most is not None
        self._client = client
        self._activity = Activity(most or 0)
        self._projects = Projects(client)
        self._exposition = Exposition()
        self._registry = CollectorRegistry()
        self._registry.register(self._exposition)
        ProcessCollector(registry=self._registry)
        self._scraping = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._scraped_at = self._asked_at = -SOONEST_SECONDS
        self._trouble = ""

    async def text(self, accept: str) -> tuple[bytes, str]:
        """Return the current metrics in the best format of the header Accept, and the content type.

        Raises:
            RequestRejected: the user does not have all projects.
        """
        clock = asyncio.get_running_loop().time
        async with self._scraping:
            if clock() - self._scraped_at >= SOONEST_SECONDS:
                await self._scrape(clock())
                self._scraped_at = clock()
            encode, content_type = choose_encoder(accept)
            return encode(self._registry), content_type

    async def trouble(self) -> str:
        """Return why the daemon is not ready; empty if it is."""
        clock = asyncio.get_running_loop().time
        async with self._asking:
            if clock() - self._asked_at >= SOONEST_SECONDS:
                self._trouble = await self._ask()
                self._asked_at = clock()
            return self._trouble

    async def _scrape(self, now: float) -> None:
        try:
            rows = await self._projects.look(PATIENCE_SECONDS)
            self._activity.take(rows, self._projects.epoch, now)
            asking = DaemonShow(projects=self._activity.most_telling(rows, STANDS_MOST))
            reply = await self._client._ask(asking, PATIENCE_SECONDS)
        except TaskQueueError as error:
            if isinstance(error, RequestRejected) and error.code == "forbidden":
                raise
            self._exposition.show_nothing()
            return
        self._exposition.show(reply, rows, self._activity)

    async def _ask(self) -> str:
        try:
            await self._client._ask(WhoIs(), READY_SECONDS)
        except TaskQueueError as error:
            return str(error)
        return ""


class Projects:
    """Projects, remembered from one scrape to the next.

    Attributes:
        epoch: epoch of the daemon at the last scrape; 0 before the first.
    """

    def __init__(self, client: AsyncClient) -> None:
        self.epoch = 0
        self._client = client
        self._rows: dict[str, ProjectRow] = {}
        self._since = ""

    async def look(self, patience: float) -> Sequence[ProjectRow]:
        """Return all projects, at most a quarter of a second old.

        Args:
            patience: longest wait for each answer, in seconds.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        more = True
        while more:
            reply = await self._client._ask(Watch(since=self._since, seconds=0.0), patience)
            if reply.anew:
                self._rows.clear()
            for name in reply.gone:
                self._rows.pop(name, None)
            self._rows.update((each.name, _row(each)) for each in reply.projects)
            self.epoch, self._since, more = reply.epoch, reply.since, reply.more
        return list(self._rows.values())


def _row(pulse: ProjectPulse) -> ProjectRow:
    return ProjectRow(pulse.name, pulse.state, pulse.counts, pulse.totals, _paused_by(pulse))


def _paused_by(pulse: ProjectPulse) -> PausedBy:
    if pulse.state != "paused":
        return ""
    return "daemon" if pulse.reason else "operator"


# ---------------------------------------------------------------------------------------------------------- time series

PROJECT_STATES: Final = tuple(
    (state, by) for state in get_args(ProjectState) for by in (("daemon", "operator") if state == "paused" else ("",))
)


class Exposition(Collector):
    """Result of the last scrape, in the form that prometheus-client collects."""

    def __init__(self) -> None:
        self._families: list[Family] = [_family(UP, [((), 0.0)])]

    def show(self, reply: DaemonReply, rows: Sequence[ProjectRow], activity: Activity) -> None:
        """Show a daemon and its projects."""
        self._families = [_family(UP, [((), 1.0)]), *_of_daemon(reply), *_of_projects(reply, rows, activity)]

    def show_nothing(self) -> None:
        """Show that the daemon does not answer."""
        self._families = [_family(UP, [((), 0.0)])]

    def collect(self) -> Iterable[Family]:
        """Return all families, as prometheus-client requires."""
        return self._families


def _of_daemon(reply: DaemonReply) -> Iterator[Family]:
    for metric in DAEMON_METRICS:
        if metric.samples is not None:
            yield _family(metric, metric.samples(reply))
        elif (found := reply.histograms.get(_histogram_name(metric))) is not None:
            yield _histogram(metric, found)


def _histogram_name(metric: Metric) -> str:
    return HISTOGRAMS.get(metric.name, metric.name.removeprefix("taskqueue_"))


def _of_projects(reply: DaemonReply, rows: Sequence[ProjectRow], activity: Activity) -> Iterator[Family]:
    tasks = activity.gauges(rows).items()
    yield _family(
        TASKS, [((name, state), count) for name, counts in tasks for state, count in zip(STATES, counts, strict=True)]
    )
    states = Counter((row.state, row.by) for row in rows)
    yield _family(PROJECTS, [(each, states[each]) for each in PROJECT_STATES])
    stands = activity.stands(reply.projects_stand).items()
    yield _family(IDLE, [((name,), idle) for name, (idle, _) in stands])
    yield _family(BACKOFFS, [((name,), backoffs) for name, (_, backoffs) in stands])
    counted = {name: dict(zip(EVENTS, totals, strict=True)) for name, totals in activity.counters().items()}
    for metric, event in ((ACCEPTED, "new"), (DISPATCHED, "selected"), (TIMEOUTS, "timeout")):
        yield _family(metric, [((name,), events[event]) for name, events in counted.items()])
    yield _family(
        ATTEMPTS, [((name, outcome), events[outcome]) for name, events in counted.items() for outcome in OUTCOMES]
    )


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, found: Histogram) -> Family:
    family = HistogramMetricFamily(metric.name, metric.meaning)
    bounds = [*map(floatToGoString, found.bounds), "+Inf"]
    family.add_metric([], list(zip(bounds, map(float, accumulate(found.counts)), strict=True)), found.sum)
    return family
