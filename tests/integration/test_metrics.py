"""The metrics: exposition, a real Prometheus, alerts and dashboard.

Prometheus and promtool are those of Debian's package: apt-get install prometheus.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from taskqueue.web import metrics
from taskqueue.web.main import make_app
from taskqueue.web.metrics import DAEMON_METRICS, PROJECT_METRICS, UP, Metric
from taskqueue.web.options import WebOptions
from tests.integration.conftest import WAIT_SECONDS, Daemon, DaemonFactory, PeerFactory
from tests.integration.free_address import free_address
from tests.integration.nursery import Forked
from tests.prometheus import Prometheus
from tools import reference

ROOT: Final = Path(__file__).parents[2]
ALERTS: Final = ROOT / "conf" / "prometheus-alerts.yml"
DASHBOARD: Final = ROOT / "conf" / "grafana-dashboard.json"
PAGE: Final = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")

CONFIG: Final = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["%s"]
scrape_configs: [{job_name: taskqueue, static_configs: [{targets: ["%s"]}]}]
"""

NAMES: Final = re.compile(r"\btaskqueue_[a-z_]+")
REASONS: Final = ("memory", "unread", "receive-failed", "crowded", "silent", "revoked", "hasty")
METRICS: Final = (UP, *DAEMON_METRICS, *PROJECT_METRICS)


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = shutil.which("promtool")
    assert command is not None, "promtool is missing: apt-get install prometheus"
    return subprocess.run([command, *arguments], input=text, capture_output=True, text=True, check=False)


def exposed(metric: Metric) -> str:
    """Return the name of its series; for a histogram, their common part."""
    return f"{metric.name}_total" if metric.kind == "counter" else metric.name


def exposed_names() -> set[str]:
    """Return the names of all possible series."""
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {f"{exposed(metric)}{part}" for metric in METRICS for part in parts.get(metric.kind, ("",))}


@asynccontextmanager
async def page(it: Daemon, most: int | None = 50) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Web application of a daemon, in this process."""
    app = make_app(WebOptions(it.url, timeout=WAIT_SECONDS, metrics_projects=most))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7401") as http,
    ):
        yield http


def samples(text: str) -> dict[str, float]:
    """Parse values by series, as they are written."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


# ---------------------------------------------------------------------------------------- what is exposed


def test_what_is_exposed_is_what_the_table_has_and_promtool_finds_nothing_wrong(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon()
    peer(it).push("news", "a")

    async def read() -> tuple[httpx.Response, httpx.Response]:
        async with page(it) as http, page(it, most=None) as off:
            return await http.get("/metrics"), await off.get("/metrics")

    reply, none = asyncio.run(read())

    assert none.status_code == 404
    assert reply.headers["content-type"].startswith("text/plain; version=")
    found = dict(re.findall(r"^# TYPE (taskqueue_\w+) (\w+)$", reply.text, flags=re.M))
    assert found == {exposed(metric): metric.kind for metric in METRICS}
    values = samples(reply.text)
    assert values['taskqueue_tasks{project="news",state="ready"}'] == 1
    assert values['taskqueue_projects{by="",state="running"}'] == 1
    assert values['taskqueue_project_idle_seconds{project="news"}'] > 0
    assert values['taskqueue_slot_backoffs{project="(other)"}'] == 0
    reasons = {f'taskqueue_connections_closed_total{{reason="{reason}"}}' for reason in REASONS}
    assert {name for name in values if "connections_closed_total" in name} == reasons
    assert "process_resident_memory_bytes" in reply.text
    checked = promtool("check", "metrics", text=reply.text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_counters_go_on_when_the_daemon_is_restarted(
    daemon: DaemonFactory, peer: PeerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SOONEST_SECONDS", 0.0)
    it = daemon()
    peer(it).push("news", "a")

    async def read() -> list[float]:
        async with page(it) as http:
            found = await grown_to(http, [], 0)
            await asyncio.to_thread(peer(it).push, "news", "b", "c")
            found = await grown_to(http, found, 2)
            await asyncio.to_thread(it.stop)
            await asyncio.to_thread(it.start)
            await asyncio.to_thread(peer(it).push, "news", "d")
            return await grown_to(http, found, 3)

    found = asyncio.run(read())

    assert found == sorted(found)


async def grown_to(http: httpx.AsyncClient, found: list[float], pushed: int) -> list[float]:
    """Scrape until the counter of new tasks of project news shows ``pushed``; return all values seen so far."""
    while not found or found[-1] != pushed:
        text = (await http.get("/metrics")).text
        found = [*found, samples(text)['taskqueue_tasks_accepted_total{project="news"}']]
    return found


def test_of_a_daemon_that_is_away_it_is_said_that_it_is_not_ready(
    daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SOONEST_SECONDS", 0.0)
    monkeypatch.setattr(metrics, "READY_SECONDS", WAIT_SECONDS)
    it = daemon()

    async def look() -> list[tuple[int, str]]:
        async with page(it) as http:
            replies = [await http.get("/readyz")]
            await asyncio.to_thread(it.stop)
            monkeypatch.setattr(metrics, "PATIENCE_SECONDS", 0.1)
            monkeypatch.setattr(metrics, "READY_SECONDS", 0.1)
            replies += [await http.get(path) for path in ("/readyz", "/healthz", "/metrics")]
        return [(reply.status_code, reply.text) for reply in replies]

    ready, away, well, shown = asyncio.run(look())

    assert ready == (200, "ready\n")
    assert (away[0], away[1].startswith("not ready: ")) == (503, True)
    assert well == (200, "well\n")
    assert shown[0] == 200
    assert [line for line in shown[1].splitlines() if line.startswith("taskqueue")] == ["taskqueue_up 0.0"]


# ---------------------------------------------------------------------------------------- Prometheus


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Callable[[Daemon, str], None]]:
    """Start a web process for a daemon at an address; it listens when this returns."""
    started: list[subprocess.Popen[str]] = []

    def start(it: Daemon, address: str) -> None:
        command = [sys.executable, "-m", "taskqueue", "web", "start", "--daemon", it.url, "--bind", address]
        process = Forked(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        started.append(process)
        assert process.stderr is not None
        assert f"http://{address}/" in process.stderr.readline()

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[str], Prometheus]]:
    started: list[Prometheus] = []

    def start(target: str) -> Prometheus:
        started.append(Prometheus(tmp_path, CONFIG % (ALERTS, target), free_address()))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def test_a_real_prometheus_sees_what_happens(
    daemon: DaemonFactory,
    peer: PeerFactory,
    web: Callable[[Daemon, str], None],
    prometheus: Callable[[str], Prometheus],
) -> None:
    address = free_address()
    seer = prometheus(address)
    it = daemon(projects={"news": {}})
    web(it, address)
    seer.wait_for('taskqueue_tasks_accepted_total{project="news"}', 0)

    producer = peer(it)
    producer.push("news", "a", "b")
    producer.push("blog", "c")
    producer.ask("hello", capacity=1)
    task = producer.receive()["tasks"][0]
    producer.ask("hello", capacity=0, seen=producer.seen, holds=[task["token"]])
    producer.ask("done", tasks=[{"project": task["project"], "taskid": task["taskid"], "token": task["token"]}])

    # A page that is late for one scrape has no values until the next.
    seer.wait_for('sum(taskqueue_attempts_total{outcome="success"})', 1)
    seer.wait_for('sum(taskqueue_tasks{state="ready"})', 2)
    seer.wait_for("sum(taskqueue_tasks_accepted_total)", 3)
    seer.wait_for("taskqueue_attempt_seconds_count", 1)
    seer.wait_for("histogram_quantile(1, taskqueue_store_commit_seconds_bucket) > bool 0", 1)
    seer.wait_for("up", 1)
    [group] = seer.ask("rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}


# ---------------------------------------------------------------------------------------- alerts, dashboard, page


def test_each_alert_goes_off_when_it_should_and_none_when_all_is_well() -> None:
    checked = promtool("check", "rules", str(ALERTS))
    assert (checked.returncode, checked.stderr) == (0, "")

    tested = promtool("test", "rules", str(Path(__file__).with_name("prometheus_alerts_test.yml")))
    assert (tested.returncode, tested.stderr) == (0, "")
    alerts = set(re.findall(r"^ +- alert: (\w+)$", ALERTS.read_text(), flags=re.M))
    assert alerts == set(
        re.findall(
            r"^ +- name: (Task\w+)$", Path(__file__).with_name("prometheus_alerts_test.yml").read_text(), flags=re.M
        )
    )


def test_each_expression_of_the_dashboard_can_be_asked(tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(expressions) > 40
    asked = [expression.replace("$__rate_interval", "1m") for expression in expressions]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(asked)]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))

    checked = promtool("check", "rules", str(file))

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=lambda file: file.name)
def test_what_alerts_and_dashboard_ask_for_is_exposed(file: Path) -> None:
    assert set(NAMES.findall(file.read_text())) - exposed_names() == set()


def test_the_reference_has_each_metric_and_each_alert() -> None:
    rows = re.findall(r"^\| `(taskqueue_\w+)` \| (\w+) \| (.*?) \| (.+?) \| (.*?) \|$", reference.metrics(), flags=re.M)

    said = [(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _, _ in rows]
    assert said == [(exposed(each), each.kind, each.labels) for each in METRICS]
    alerts = set(re.findall(r"^ +- alert: (\w+)$", ALERTS.read_text(), flags=re.M))
    assert {name for row in rows for name in re.findall(r"`(Task\w+)`", row[4])} == alerts


def test_the_page_names_only_metrics_that_are_exposed() -> None:
    assert "<!-- made: metrics -->" in PAGE
    assert set(NAMES.findall(PAGE)) - exposed_names() == set()
