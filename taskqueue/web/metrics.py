"""The metrics of a daemon, in the form that Prometheus reads, and whether the daemon is ready.

    Scrape ──ask──► daemon, Projects ──rows──► Activity ──series──► Exposition ──► text
           (once for all who scrape at the same time)                  │ a row of the table for each metric

A metric is a row of the table; ``docs/metrics.md`` says what each means. Of the projects only those are asked for that
have changed since the scrape before. ``metric_series`` says which project has time series of its own.
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
from taskqueue.errors import TaskQueueError
from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.daemon import DaemonReply, DaemonShow, HistogramView
from taskqueue.protocol.insight import ProjectPulse, Watch
from taskqueue.web.metric_series import EVENTS, STATES, Activity, ProjectRow

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


DAEMON_METRICS: Final = (
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

PROJECT_METRICS: Final = (
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

# ---------------------------------------------------------------------------------------------------- asking the daemon

SOONEST_SECONDS: Final = 0.5
"""Between two looks at the daemon, however many scrape."""

PATIENCE_SECONDS: Final = 5.0
"""That the daemon may take to answer a scrape; Prometheus waits for ten by default."""

READY_SECONDS: Final = 2.0
"""That it may take to say that it is ready; while its store is read again it refuses, and the client asks again."""


class Scrape:
    """The metrics of one daemon, in a registry of its own.

    Args:
        client: of its own, see ``Projects``.
        most: projects that have series of their own; None: there are no metrics.
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
        """The metrics as they are now, in the best form of those that the header Accept names, and its content type."""
        clock = asyncio.get_running_loop().time
        async with self._scraping:
            if clock() - self._scraped_at >= SOONEST_SECONDS:
                await self._scrape(clock())
                self._scraped_at = clock()
            encode, content_type = choose_encoder(accept)
            return encode(self._registry), content_type

    async def trouble(self) -> str:
        """Why the daemon is not ready; empty: it is."""
        clock = asyncio.get_running_loop().time
        async with self._asking:
            if clock() - self._asked_at >= SOONEST_SECONDS:
                self._trouble = await self._ask()
                self._asked_at = clock()
            return self._trouble

    async def _scrape(self, now: float) -> None:
        try:
            reply = await self._client.ask(DaemonShow(), PATIENCE_SECONDS)
            rows = await self._projects.look(PATIENCE_SECONDS)
        except TaskQueueError:
            self._exposition.show_nothing()
            return
        self._activity.take(rows, self._projects.epoch, now)
        self._exposition.show(reply, rows, self._activity)

    async def _ask(self) -> str:
        try:
            await self._client.ask(DaemonShow(), READY_SECONDS)
        except TaskQueueError as error:
            return str(error)
        return ""


class Projects:
    """Remembers them from one look to the next.

    Args:
        client: one of its own: of all who watch in one session only the last one is answered.

    Attributes:
        epoch: of the daemon at the last look; 0: there was none.
    """

    def __init__(self, client: AsyncClient) -> None:
        self.epoch = 0
        self._client = client
        self._rows: dict[str, ProjectRow] = {}
        self._since = ""

    async def look(self, patience: float) -> Sequence[ProjectRow]:
        """All of them, as they were a quarter of a second ago at most.

        Args:
            patience: seconds that each answer may take.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        more = True
        while more:
            reply = await self._client.ask(Watch(since=self._since, seconds=0.0), patience)
            if reply.anew:
                self._rows.clear()
            for name in reply.gone:
                self._rows.pop(name, None)
            self._rows.update((each.name, _row(each)) for each in reply.projects)
            self.epoch, self._since, more = reply.epoch, reply.since, reply.more
        return list(self._rows.values())


def _row(pulse: ProjectPulse) -> ProjectRow:
    return ProjectRow(pulse.name, pulse.state, pulse.counts, pulse.totals, bool(pulse.reason))


# ---------------------------------------------------------------------------------------------------------- time series

PROJECT_STATES: Final = get_args(ProjectState)

BY_NAME: Final = {metric.name: metric for metric in PROJECT_METRICS}


class Exposition(Collector):
    """What the last scrape has found; it asks nobody."""

    def __init__(self) -> None:
        self._families: list[Family] = [_family(UP, [((), 0.0)])]

    def show(self, reply: DaemonReply, rows: Sequence[ProjectRow], activity: Activity) -> None:
        """Show a daemon, and its projects."""
        self._families = [_family(UP, [((), 1.0)]), *_of_daemon(reply), *_of_projects(rows, activity)]

    def show_nothing(self) -> None:
        """Show that the daemon does not answer."""
        self._families = [_family(UP, [((), 0.0)])]

    def collect(self) -> Iterable[Family]:
        """All families, as prometheus-client asks for them."""
        return self._families


def _of_daemon(reply: DaemonReply) -> Iterator[Family]:
    for metric in DAEMON_METRICS:
        if metric.samples is not None:
            yield _family(metric, metric.samples(reply))
        elif (found := reply.histograms.get(metric.name.removeprefix("taskqueue_"))) is not None:
            yield _histogram(metric, found)


def _of_projects(rows: Sequence[ProjectRow], activity: Activity) -> Iterator[Family]:
    tasks = activity.gauges(rows).items()
    yield _family(
        BY_NAME["taskqueue_tasks"],
        [((name, state), count) for name, counts in tasks for state, count in zip(STATES, counts, strict=True)],
    )
    states = Counter(row.state for row in rows)
    yield _family(BY_NAME["taskqueue_projects"], [((state,), states[state]) for state in PROJECT_STATES])
    paused = sum(row.paused_itself for row in rows)
    yield _family(BY_NAME["taskqueue_projects_paused_themselves"], [((), paused)])
    counters = activity.counters().items()
    for place, event in enumerate(EVENTS):
        samples = [((name,), float(totals[place])) for name, totals in counters]
        yield _family(BY_NAME[f"taskqueue_tasks_{event}"], samples)


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, found: HistogramView) -> Family:
    family = HistogramMetricFamily(metric.name, metric.meaning)
    bounds = [*map(floatToGoString, found.bounds), "+Inf"]
    family.add_metric([], list(zip(bounds, map(float, accumulate(found.counts)), strict=True)), found.sum)
    return family
