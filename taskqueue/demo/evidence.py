"""Collects the evidence about a finished crawl, from the site's access logs and from the scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from taskqueue import Client
from taskqueue.demo.crawl_run import Run, access_log
from taskqueue.demo.monitor import CrawlMonitor
from taskqueue.demo.pace_check import fastest
from taskqueue.demo.page import Site
from taskqueue.demo.services import PROJECT
from taskqueue.demo.verdict import EndState, Evidence, missing
from taskqueue.demo.webserver import read_access


def gather(monitor: CrawlMonitor, client: Client, site: Site, site_url: str, run: Run, data: Path) -> Evidence:
    """All that the verdict needs. The pace is checked for this start only: clocks of earlier ones may differ."""
    logs = [list(read_access(access_log(data, start))) for start in range(1, run.starts + 1)]
    expected = site.expected()
    return Evidence(
        expected=expected,
        fetched=Counter(get.target for log in logs for get in log),
        was_interrupted=run.starts > 1 or monitor.was_interrupted,
        counts=monitor.counts,
        ended=_ended(client, site_url, missing(expected)),
        window=fastest(monitor.samples, (get.at for get in logs[-1])),
        problems=client.verify(),
    )


def _ended(client: Client, site_url: str, targets: Iterable[str]) -> dict[str, EndState]:
    """State and error of the tasks of these targets."""
    tasks = {target: client.tasks.show(PROJECT, url=site_url.rstrip("/") + target) for target in targets}
    return {target: (task.state, task.error) for target, task in tasks.items()}
