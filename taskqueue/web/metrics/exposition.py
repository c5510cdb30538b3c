"""Makes time series of what a scrape has found, for a registry of prometheus-client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.daemon import DaemonReply, HistogramView
from taskqueue.web.metrics.activity import EVENTS, STATES, Activity, ProjectRow
from taskqueue.web.metrics.metric_table import DAEMON, PROJECTS, UP, Metric, Sample

PROJECT_STATES: Final = get_args(ProjectState)

BY_NAME: Final = {metric.name: metric for metric in PROJECTS}


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
    for metric in DAEMON:
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
