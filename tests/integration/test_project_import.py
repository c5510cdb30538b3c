"""Import of a project from a backup into a running daemon, by the commands, while daemon and importer are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from taskqueue.cli.input import export_file
from taskqueue.cli.input.export_file import ExportFile
from taskqueue.cli.main import main
from taskqueue.client.blocking.client import Client
from tests.integration.conftest import ROOT
from tests.postgres import EITHER_STORE

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, Peer, PeerFactory

TASKS: Final = 2_400
WAIT_SECONDS: Final = 120


@pytest.fixture
def pages(daemon: DaemonFactory, peer: PeerFactory) -> tuple[Daemon, Peer]:
    """Daemon with TASKS tasks in the project news, some of them finished, leased or blocked, and one in shop."""
    it = daemon()
    client = peer(it)
    client.push("shop", "other")
    client.ask("project-set", project="news", settings={"rate": 1000.0, "order": "due", "keep": {"failed": "30d"}})
    client.push("news", *(f"page-{n:04d}" for n in range(TASKS - 400)), retries=0)
    fetcher = peer(it, "fetcher")
    fetcher.ask("hello", capacity=300, projects=["news"])
    held: list[Any] = []
    while len(held) < 300:
        held += fetcher.receive()["tasks"]
    client.ask("project-set", project="news", settings={"rate": 0.0})  # from now on nothing moves by itself
    reports = [
        {key: each[key] for key in ("project", "taskid", "token")}
        | ({"ok": True, "result": [n]} if n % 2 else {"ok": False, "error": "503"})
        for n, each in enumerate(held[:200])
    ]
    fetcher.ask("done", tasks=reports)
    blocked = [
        {"taskid": f"late-{n:03d}", "url": "http://a/", "depends_on": [f"page-{2 * (n % 100) + 1:04d}", "page-1999"]}
        for n in range(400)
    ]
    client.ask("new-task", project="news", tasks=blocked)
    fetcher.close()
    return it, client


def export_of(it: Daemon, folder: Path, name: str = "news.jsonl") -> Path:
    """Back the store up if it is a folder, and export news from there; else from the database."""
    file = folder / name
    source = ["-c", str(it.config_file)]
    if it.store_path.exists():
        assert main(["store", "backup", str(folder / "monday"), *source]) == 0
        source = ["--store", str(folder / "monday")]
    assert main(["store", "export", "news", *source, "-o", str(file)]) == 0
    return file


def tasks_of(client: Peer) -> dict[str, tuple[Any, ...]]:
    """State, url, priority, parents' number and time of the end of each task of news; processing ones as ready."""
    found: dict[str, tuple[Any, ...]] = {}
    after, more = "", True
    while more:
        page = client.ask("task-list", project="news", limit=500, after=after)
        for row in page["tasks"]:
            state = row.get("state", "")
            at = row.get("at", 0.0) if state != "processing" else 0.0
            found[row["taskid"]] = ("ready" if state == "processing" else state, row["url"], row.get("priority", 0), at)
        after = page.get("next", "")
        more = bool(after)
    return found


def project(client: Peer) -> dict[str, Any]:
    return dict(client.ask("project-show", project="news")["project"])


def command(it: Daemon, *arguments: object) -> subprocess.Popen[str]:
    """Start a command of ``taskqueue`` against the daemon."""
    return subprocess.Popen(
        [sys.executable, "-m", "taskqueue", *map(str, arguments)], cwd=ROOT, text=True,
        env=os.environ | {"TASKQUEUE_DAEMON": it.url}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def check(it: Daemon) -> None:
    """Stop the daemon, and check its store."""
    assert it.stop() == 0
    assert main(["store", "check", "-c", str(it.config_file)]) == 0


@EITHER_STORE
@pytest.mark.parametrize("form", ["jsonl", "msgpack"])
def test_a_deleted_project_comes_back_from_a_backup_while_the_daemon_is_killed_and_goes_on(
    pages: tuple[Daemon, Peer], tmp_path: Path, form: str
) -> None:
    it, client = pages
    before, counts = tasks_of(client), project(client)["counts"]
    settings = project(client)["overrides"]
    file = export_of(it, tmp_path, f"news.{form}")
    client.ask("project-do", project="news", action="delete")

    importing = command(it, "project", "import", "news", file)
    while not client.ask("status", filter="news").get("projects") and importing.poll() is None:
        pass
    it.kill()
    it.start()
    out, err = importing.communicate(timeout=WAIT_SECONDS)

    assert (importing.returncode, err) == (0, "")
    assert out.startswith(f"news: brought in {TASKS:,} tasks")
    assert out.endswith("; it is running\n")
    assert tasks_of(client) == before
    counts["ready"] += counts.pop("processing", 0)
    assert (project(client)["counts"], project(client)["overrides"]) == (counts, settings)
    assert client.ask("status")["counts"]["ready"] == counts["ready"] + 1
    assert client.ask("verify")["problems"] == []
    client.close()
    check(it)


def test_an_import_whose_importer_died_is_continued_by_the_same_command(
    pages: tuple[Daemon, Peer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    it, client = pages
    before = tasks_of(client)
    file = export_of(it, tmp_path)
    client.ask("project-do", project="news", action="delete")
    export = ExportFile(str(file))
    with Client(it.url) as importer:
        assert importer.projects.import_step("news", export.hash, export.project()).brought == 0
        step = next(export.steps(0))
        importer.projects.import_step("news", export.hash, first=0, tasks=step.tasks)
    it.kill()
    it.start()

    half = project(client)
    assert (half["state"], sum(half["counts"].values())) == ("paused", export_file.STEP_TASKS)
    assert f"{export_file.STEP_TASKS} of" in half["reason"]
    refused = client.ask("project-do", project="news", action="resume")
    assert (refused["type"], refused["code"]) == ("error", "state")
    capsys.readouterr()
    assert main(["project", "import", "news", str(file), "--daemon", it.url]) == 0
    assert f"{export_file.STEP_TASKS} of" in capsys.readouterr().out
    assert tasks_of(client) == before
    client.close()
    check(it)


def test_an_unfinished_import_can_be_dropped_and_begun_anew(pages: tuple[Daemon, Peer], tmp_path: Path) -> None:
    it, client = pages
    before = tasks_of(client)
    file = export_of(it, tmp_path)
    client.ask("project-do", project="news", action="delete")
    export = ExportFile(str(file))
    with Client(it.url) as importer:
        importer.projects.import_step("news", export.hash, export.project())
        importer.projects.import_step("news", export.hash, first=0, tasks=next(export.steps(0)).tasks)

    assert main(["project", "delete", "news", "--yes", "--daemon", it.url]) == 0
    assert main(["project", "import", "old-news", str(file), "--daemon", it.url]) == 0
    assert main(["project", "import", "news", str(file), "--daemon", it.url]) == 0

    assert tasks_of(client) == before
    assert client.ask("project-show", project="old-news")["project"]["counts"] == project(client)["counts"]
    assert client.ask("verify")["problems"] == []


LINES: Final = (
    {"taskqueue": 6, "projects": [{"name": "news"}]},
    {"project": "news", "taskid": "a", "state": "ready", "url": "http://a/"},
    {"project": "news", "taskid": "b", "state": "success", "url": "http://b/", "ended_at": 5.0},
    {"history": "hour", "at": 3600, "projects": {"news": [1, 0, 0, 0, 0, 0]}},
    {"tasks": 2},
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({1: {"project": "news", "taskid": "a", "state": "ready"}}, "line 2: there is no url"),
        ({2: {"project": "news", "taskid": "b", "state": "gone", "url": "http://b/"}}, "line 3: state: 'gone' is none"),
        ({2: {"project": "shop", "taskid": "b", "state": "ready", "url": "http://b/"}}, 'line 3: project "shop"'),
        ({4: {"tasks": 3}}, "line 5: expected 3 tasks, found 2"),
        ({4: None}, "the lines end after 2 tasks, without their last line"),
        ({0: {"taskqueue": 99, "projects": [{"name": "news", "hat": 1}], "x": 1}}, "line 1: lines of version 99 can't"),
        ({0: {"taskqueue": 6, "projects": [{"name": "news"}, {"name": "shop"}]}}, "line 1: 2 projects; bring one at"),
        ({0: {"taskqueue": 6, "projects": []}}, "line 1: 0 projects; bring one at a time"),
        ({0: {"tasks": 2}}, "line 1: this is not the beginning of an export"),
        ({0: {"taskqueue": 6, "projects": [{"name": "news", "totals": {"new": -5}}]}}, 'line 1: project "news"'),
        ({1: {"project": "news", "taskid": "a", "state": "ready", "url": "http://a/", "parents": [["x", 0, "no"]]}},
         'line 2: parents: there is no project "no"'),
    ],
)  # fmt: skip
def test_a_damaged_export_is_refused_with_its_line_and_leaves_nothing_runnable(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    change: dict[int, Any], reason: str,
) -> None:  # fmt: skip
    it = daemon()
    lines = [change.get(place, line) for place, line in enumerate(LINES)]
    file = tmp_path / "news.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines if line is not None))

    assert main(["project", "import", "news", str(file), "--daemon", it.url]) == 1

    assert f"{file}: {reason}" in capsys.readouterr().err
    views = peer(it).ask("status").get("projects", [])
    assert [(each["state"], each["counts"]) for each in views if each["name"] == "news"] in ([], [("paused", {})])


def test_an_export_in_a_pipe_is_refused_before_anything_is_made(
    daemon: DaemonFactory, peer: PeerFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    it = daemon()
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        pipe.write("".join(json.dumps(line) + "\n" for line in LINES))

    assert main(["project", "import", "news", f"/dev/fd/{reading}", "--daemon", it.url]) == 1

    os.close(reading)
    assert f"/dev/fd/{reading}: it is read twice, so it can't be a pipe" in capsys.readouterr().err
    assert peer(it).ask("status").get("projects", []) == []


def test_an_export_of_a_known_project_is_refused(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    it = daemon()
    peer(it).push("news", "a")
    file = tmp_path / "news.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES))

    assert main(["project", "import", "news", str(file), "--daemon", it.url]) == 1
    assert 'there is a "news" already, and it is whole; to import it anew, delete it first' in capsys.readouterr().err
    assert main(["project", "import", "again", str(file), "--daemon", it.url]) == 0
    assert capsys.readouterr().out.endswith("it is running; left behind: the attempts of its tasks, and its flows\n")


def test_an_importer_that_is_killed_leaves_a_project_that_says_so(pages: tuple[Daemon, Peer], tmp_path: Path) -> None:
    it, client = pages
    before = tasks_of(client)
    file = export_of(it, tmp_path)
    client.ask("project-do", project="news", action="delete")

    importing = command(it, "project", "import", "news", file)
    while not client.ask("status", filter="news").get("projects") and importing.poll() is None:
        pass
    importing.send_signal(signal.SIGKILL)
    importing.communicate(timeout=WAIT_SECONDS)

    if importing.returncode != 0 and project(client)["state"] == "paused":  # it may have been quicker than the signal
        assert "parts of its import are there; repeat it with taskqueue project import" in project(client)["reason"]
        assert main(["project", "import", "news", str(file), "--daemon", it.url]) == 0
    assert tasks_of(client) == before
