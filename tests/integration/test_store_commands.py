"""The store commands beside a busy daemon: nothing waits for them, and they see a consistent store."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue.cli.main import main
from tests.integration.nursery import run_forked
from tests.nightly import usually
from tests.postgres import EITHER_STORE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import Daemon, DaemonFactory, Message, Peer, PeerFactory

Run = Callable[..., tuple[int, str, str]]

CHECKS = usually(2, nightly=5)
"""Checks of a busy daemon's store."""

BATCH = 50

CUT_OFF = """
import os, signal, sys
from taskqueue.store.tools.backup import back_up
os.rename = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
back_up(*sys.argv[1:])
"""
"""Program that dies after copying the files, before giving the copy its name."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``taskqueue store`` in this process; return exit status, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["store", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


def finished(task: Message, **more: Any) -> Message:
    return {key: task[key] for key in ("project", "taskid", "token")} | more


def taken(fetcher: Peer, capacity: int) -> list[Message]:
    """Receive the first tasks of a fetcher with this capacity."""
    fetcher.ask("hello", capacity=capacity)
    return list(fetcher.receive()["tasks"])


def counts(client: Peer, project: str = "news") -> dict[str, int]:
    return dict(client.ask("project-show", project=project)["project"]["counts"])


@contextmanager
def at_work(it: Daemon, peer: PeerFactory) -> Iterator[Callable[[], None]]:
    """Keep the daemon busy by a producer and a fetcher; the function waits until they have done some more.

    Some tasks fail, some are replaced while they are processed, some are removed.
    """
    stop, more = threading.Event(), threading.Semaphore(0)
    client = peer(it)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            n = 0
            while not stop.is_set():
                n += 1
                client.push("news", *(f"t{n}-{k}" for k in range(BATCH)), retries=1, delay=None if n % 3 else 60)
                client.push("news", *(f"t{n - 1}-{k}" for k in range(BATCH)), force_update=True)
                client.push("shop", *(f"s{n}-{k}" for k in range(BATCH)))
                client.ask("hello", capacity=BATCH, projects=["news"], seen=client.seen)
                for message in client.aside:
                    tasks = [finished(task, ok=k % 4 > 0) for k, task in enumerate(message.get("tasks", []))]
                    client.seen = message["number"]
                    client.ask("done", tasks=tasks)
                client.aside.clear()
                if n % 7 == 0:
                    client.ask("project-do", project="shop", action="clear")
                more.release()
        except BaseException as error:
            failures.append(error)
            more.release()
            raise

    def wait_for_more() -> None:
        for _ in range(4):
            more.acquire()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield wait_for_more
    finally:
        stop.set()
        thread.join()
    assert failures == []


@EITHER_STORE
def test_a_busy_daemon_is_looked_at_as_often_as_one_likes(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, tmp_path: Path
) -> None:
    it = daemon()
    with at_work(it, peer) as wait_for_more:
        for look in range(CHECKS):
            wait_for_more()
            status, shown, said = run("check", "-c", it.config_file)
            assert (status, said) == (0, ""), shown
            assert json.loads(run("show", "--json", "-c", it.config_file)[1])["tasks"] > 0
            assert run("export", "-c", it.config_file, "-o", tmp_path / "out.jsonl")[0] == 0
            assert run("import", tmp_path / "out.jsonl", "--store", tmp_path / f"new-{look}")[0] == 0
            assert run("check", tmp_path / f"new-{look}")[0] == 0


def test_a_busy_daemon_is_copied_as_often_as_one_likes(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, tmp_path: Path
) -> None:
    it = daemon()
    with at_work(it, peer) as wait_for_more:
        for look in range(CHECKS):
            wait_for_more()
            assert run("backup", tmp_path / f"copy-{look}", "-c", it.config_file)[0] == 0
            assert run("check", tmp_path / f"copy-{look}")[0] == 0


def test_a_backup_has_everything_that_was_acknowledged_before(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, tmp_path: Path
) -> None:
    it = daemon()
    client = peer(it)
    for n in range(usually(5, nightly=20)):
        client.push("news", *(f"t{n}-{k}" for k in range(100)))
        assert run("backup", tmp_path / f"copy-{n}", "-c", it.config_file)[0] == 0

        found = json.loads(run("show", "--json", tmp_path / f"copy-{n}")[1])
        assert found["tasks"] == 100 * (n + 1)


@pytest.mark.parametrize("command", [["compact"], ["restore", "COPY", "--replace"], ["import", "LINES", "--merge"]])
def test_what_needs_the_store_alone_says_that_a_daemon_has_it(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, tmp_path: Path, command: list[str]
) -> None:
    it = daemon()
    peer(it).push("news", "a")
    run("backup", tmp_path / "copy", "-c", it.config_file)
    run("export", "-o", tmp_path / "lines", "-c", it.config_file)
    names = {"COPY": str(tmp_path / "copy"), "LINES": str(tmp_path / "lines")}

    status, _, said = run(*(names.get(part, part) for part in command), "-c", it.config_file)

    assert status == 1
    assert f"{it.store_path}: " in said
    assert "daemon has this store open" in said
    assert counts(peer(it))["ready"] == 1
    assert sorted(os.listdir(it.store_path.parent)) == ["data", "stderr", "taskqueue.toml"]


def test_a_restored_store_goes_on_from_the_backup_and_gives_no_token_twice(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, tmp_path: Path
) -> None:
    it = daemon()
    client = peer(it)
    client.push("news", *(f"t{k}" for k in range(6)))
    before = taken(peer(it), 1)
    run("backup", tmp_path / "copy", "-c", it.config_file)
    it.kill()
    it.start()
    late = peer(it)
    after = taken(late, 3)
    client.push("news", "later")
    it.kill()

    assert run("restore", tmp_path / "copy", "--replace", "-c", it.config_file)[0] == 0
    it.start()

    assert counts(client) == counts(client) | {"ready": 5, "processing": 1}
    assert client.ask("task-show", project="news", taskid="later")["type"] == "error"
    again = taken(peer(it), 5)
    assert {task["taskid"] for task in again} >= {task["taskid"] for task in after}
    assert not {task["token"] for task in again} & {task["token"] for task in [*before, *after]}
    assert late.ask("done", tasks=[finished(task) for task in after])["outcomes"] == ["stale"] * 3


def test_a_fetcher_that_held_a_task_when_the_backup_was_made_can_still_end_it(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, tmp_path: Path
) -> None:
    it = daemon()
    client, fetcher = peer(it), peer(it)
    client.push("news", "a")
    [task] = taken(fetcher, 1)
    run("backup", tmp_path / "copy", "-c", it.config_file)
    it.kill()

    run("restore", tmp_path / "copy", "--replace", "-c", it.config_file)
    it.start()

    assert fetcher.ask("done", tasks=[finished(task)])["outcomes"] == ["done"]


def test_a_project_is_moved_to_another_daemon_without_what_is_over_being_run_again(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, tmp_path: Path
) -> None:
    first, second = daemon(), daemon()
    client, fetcher = peer(first), peer(first)
    client.push("news", "low", "over", "high")
    client.ask("task-cancel", project="news", taskids=["over"])
    client.push("news", "high", priority=5)
    client.push("other", "x")
    [held] = taken(fetcher, 1)
    second.stop()

    run("export", "news", "-c", first.config_file, "-o", tmp_path / "lines")
    assert run("import", tmp_path / "lines", "-c", second.config_file)[1].endswith(
        "brought in 3 tasks, made 1 project\n"
    )
    second.start()

    there = peer(second)
    assert there.push("news", "over") == ["ignored"]
    assert counts(there)["cancelled"] == 1
    assert held["taskid"] == "high"
    assert [task["taskid"] for task in taken(peer(second), 2)] == ["high", "low"]
    assert there.ask("verify")["problems"] == []


def test_a_backup_that_is_cut_off_is_not_there(daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path) -> None:
    it = daemon()
    peer(it).push("news", "a")

    done = run_forked([sys.executable, "-c", CUT_OFF, it.store_path, tmp_path / "copy"])

    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "copy").exists()
    assert len(list(tmp_path.iterdir())) == 1
