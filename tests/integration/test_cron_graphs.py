"""Graphs by the clock with real processes: over kills and a clock change, by command, in Python, for limited keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskqueue import Client, Task
from taskqueue.cli.main import main
from tests.integration.conftest import ENTRY, Daemon

CHANGE = datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp()
"""Unix seconds at which clocks in Berlin go forward."""

SHOWN = "import time; time.time = lambda: float(open({!r}).read()); "
"""Beginning of a program whose wall clock shows what is in a file."""

KILLED_AT = (-2, 1)
"""Minutes from the change in which the daemon is killed."""

PARENTS = {"A": "", "B": "", "C": "", "D": "AB", "E": "BC", "F": "AD", "G": "DE", "H": "DE", "I": "CE"}
TASKS = {name: {"url": f"data:,{name}-{{tick}}", "after": list(parents)} for name, parents in PARENTS.items()}

FILE = """
flow = "nightly"
[defaults]
retries = 5
[tasks.report]
url = "data:,report"
after = ["prices"]
[tasks.prices]
url = "data:,prices-{tick}"
save = {page = 1, since = "{tick}"}
"""

Daemons = Callable[..., Daemon]


def test_over_kills_and_a_clock_change_each_flow_of_an_entry_runs_its_tasks_once_and_in_order(
    daemon: Daemons, tmp_path: Path
) -> None:
    clock = tmp_path / "clock"
    show(clock, CHANGE - 330)
    it = daemon(entry=SHOWN.format(str(clock)) + ENTRY)
    ran: list[str] = []
    minutes = range(-5, 6)
    with Client(it.url) as client:
        client.projects.start("shop")
        client.cron.set(
            "shop", "night", cron="* * * * *", zone="Europe/Berlin", missed="once", overlap="wait", tasks=TASKS,
            keep_flows=20,
        )  # fmt: skip
        for minute in minutes:
            show(clock, CHANGE + 60 * minute)
            before, kills = len(ran), minute in KILLED_AT
            while not (views := list(client.flows.iter("shop"))) or not views[-1].ended_at or len(ran) == before:
                for task in client.select(2, timeout=0.1):
                    client.done(task)
                    ran.append(task.taskid)
                if kills and len(ran) > before:
                    kills = False
                    it.kill()
                    it.start()

    flows = [view.flow for view in views]
    assert [view.tick for view in views] == [CHANGE + 60 * minute for minute in minutes]
    assert {(view.state, view.counts.success) for view in views} == {("success", 9)}
    assert [taskid.partition(".")[0] for taskid in ran] == [flow for flow in flows for _ in PARENTS]
    assert sorted(ran) == sorted(f"{flow}.{name}" for flow in flows for name in PARENTS)
    places = {taskid: place for place, taskid in enumerate(ran)}
    for flow in flows:
        assert all(places[f"{flow}.{one}"] < places[f"{flow}.{name}"] for name in PARENTS for one in PARENTS[name])
    assert it.stop() == 0
    assert main(["store", "check", str(it.store_path)]) == 0


def show(clock: Path, at: float) -> None:
    """Set the wall clock of the daemon, which stands still otherwise."""
    (clock.parent / "next").write_text(str(at))
    (clock.parent / "next").replace(clock)


def test_an_entry_is_set_from_a_flow_file_and_its_flows_share_a_row(
    daemon: Daemons, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    it = daemon(projects={"shop": {}})
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    file = tmp_path / "nightly.toml"
    file.write_text(FILE)

    with Client(it.url) as client:
        how = ["--every", "1s", "--flow", str(file), "--overlap", "both", "--keep-flows", "50"]
        assert main(["cron", "set", "shop", "night", *how]) == 0
        assert capsys.readouterr().out.startswith("shop: night runs next at")
        taken: list[Task] = []
        while not taken or len(client.flows.list("shop").items) < 2:
            taken += client.select(1, timeout=1)
        assert main(["cron", "remove", "shop", "night"]) == 0

        prices = taken[0]
        flow, _, name = prices.taskid.partition(".")
        tick = flow.removeprefix("night-")
        assert (name, prices.url, prices.save) == ("prices", f"data:,prices-{tick}", {"page": 1, "since": tick})
        assert prices.schedule.retries == 5
        capsys.readouterr()
        assert main(["flow", "list", "shop"]) == 0
        assert "night" in (rows := capsys.readouterr().out.splitlines())[1]
        assert len(rows) == 2
        assert main(["flow", "list", "shop", "--cron", "night"]) == 0
        assert len(capsys.readouterr().out.splitlines()) > 2
        assert main(["flow", "list", "shop", "--json"]) == 0
        assert {json.loads(line)["cron"] for line in capsys.readouterr().out.splitlines()} == {"night"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[tasks.a]\nurl = "data:,a"\ndelay = 5', "tasks.a.delay: not for a task of a cron entry"),
        (
            '[tasks.a]\nurl = "data:,a"\nafter = [{taskid = "x"}]',
            "tasks.a.after: a task of a cron entry waits for tasks",
        ),
        ('[tasks.a]\nurl = "data:,a"\ntaskid = "x"', "cron.night.tasks.a.taskid: expected {tick} in it"),
    ],
)
def test_a_flow_file_that_no_entry_can_have_is_refused(
    daemon: Daemons, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    text: str, reason: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("TASKQUEUE_DAEMON", daemon(projects={"shop": {}}).url)
    file = tmp_path / "nightly.toml"
    file.write_text(text)

    assert main(["cron", "set", "shop", "night", "--every", "1d", "--flow", str(file)]) in (1, 2)
    assert reason in capsys.readouterr().err
