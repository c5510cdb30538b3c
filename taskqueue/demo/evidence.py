"""Gathers the evidence about a finished crawl: from the site's access logs, and by asking the scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from taskqueue import Client
from taskqueue.demo.pace import fastest
from taskqueue.demo.page import Site
from taskqueue.demo.run import Run, access_log
from taskqueue.demo.stage import PROJECT
from taskqueue.demo.verdict import Ended, Evidence, missing
from taskqueue.demo.watch import Watcher
from taskqueue.demo.webserver import read_access


def gather(watcher: Watcher, client: Client, site: Site, site_url: str, run: Run, data: Path) -> Evidence:
    """All that the verdict needs. The pace is judged for this start only: clocks of earlier ones may differ."""
    logs = [list(read_access(access_log(data, start))) for start in range(1, run.starts + 1)]
    expected = site.expected()
    return Evidence(
        expected=expected,
        fetched=Counter(get.target for log in logs for get in log),
        was_interrupted=run.starts > 1 or watcher.was_interrupted,
        counts=watcher.counts,
        ended=_ended(client, site_url, missing(expected)),
        window=fastest(watcher.looks, (get.at for get in logs[-1])),
        problems=client.verify(),
    )


def _ended(client: Client, site_url: str, targets: Iterable[str]) -> dict[str, Ended]:
    """State and error of the tasks of these targets."""
    tasks = {target: client.tasks.show(PROJECT, url=site_url.rstrip("/") + target) for target in targets}
    return {target: (task.state, task.error) for target, task in tasks.items()}
