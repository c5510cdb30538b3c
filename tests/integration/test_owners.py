"""Sessions belong to the owner of a key and leases to their tokens, on daemons with keys."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from taskqueue import Client, Task, Worker
from taskqueue.access import access_file
from taskqueue.access.key_file import KeyFile, write_new_key
from tests.integration.conftest import WAIT_SECONDS, Authorise, Daemon, DaemonFactory, Message, Peer, PeerFactory


@pytest.fixture
def it(daemon: DaemonFactory, tmp_path: Path) -> Daemon:
    """A daemon with keys, not started yet, that waits for silent fetchers for an hour."""
    it = daemon(start=False, fetcher_timeout=3600.0)
    it.configure(keys=str(tmp_path / "access.json"))
    return it


@pytest.fixture
def access(tmp_path: Path) -> Path:
    return tmp_path / "access.json"


def taken_by(fetcher: Peer, **hello: Any) -> list[Message]:
    """Say hello; return the tasks that come first."""
    fetcher.send("hello", **({"capacity": 1} | hello))
    while (message := fetcher.receive())["type"] != "select":
        pass
    tasks: list[Message] = message["tasks"]
    return tasks


def test_another_key_and_a_name_that_is_authorised_anew_get_nothing_out_of_a_session(
    it: Daemon, authorise: Authorise, access: Path, peer: PeerFactory
) -> None:
    ours, theirs = authorise("ours"), authorise("theirs")
    it.start()
    own = peer(it, key=ours)
    assert own.push("news", "a") == ["new"]
    stranger = peer(it, session=own.session, key=theirs)

    def codes() -> set[str]:
        stranger.n = 0
        asked: list[tuple[str, dict[str, Any]]] = [
            ("new-task", {"project": "news", "tasks": [{"taskid": "a", "url": "http://site/a"}]}),
            ("hello", {"capacity": 1}),
            ("status", {}),
        ]
        return {stranger.ask(kind, **fields).get("code", "") for kind, fields in asked}

    assert codes() == {"not-yours"}
    assert own.push("news", "b") == ["new"]
    access_file.revoke(access, "ours")
    it.wait_for_log("key-revoked key=ours")
    stranger = peer(it, session=own.session, key=authorise("ours"))
    assert codes() == {"not-yours"}
    it.stop()
    it.start()
    stranger = peer(it, session=own.session, key=theirs)
    assert codes() == {"not-yours"}


def test_a_processor_with_another_key_reports_what_a_fetcher_took(
    it: Daemon, authorise: Authorise, peer: PeerFactory
) -> None:
    fetching, processing = authorise("fetcher", "fetcher"), authorise("processor", "fetcher")
    authorise("reader", "viewer")
    it.start()
    fetcher, processor = peer(it, key=fetching), peer(it, key=processing)
    with Client(it.url, key=authorise("admin")) as admin:
        admin.push("news", "http://site/", taskid="a")
        (task,) = taken_by(fetcher)
        lease = {key: task[key] for key in ("project", "taskid", "token")}

        assert processor.ask("extend", leases=[lease])["counted"] == 1
        assert processor.ask("done", tasks=[lease])["outcomes"] == ["done"]
        assert admin.tasks.get("news", "a").state == "success"


def give_to(access: Path, name: str, former: str, key: KeyFile) -> None:
    """Make a key that belonged to one name belong to another."""
    access_file.revoke(access, former)
    access_file.authorise(access, name, key.public, "admin")


def test_a_client_whose_key_belongs_to_another_name_goes_on_and_does_nothing_twice(
    it: Daemon, authorise: Authorise, access: Path, tmp_path: Path
) -> None:
    key = authorise("web1")
    it.start()
    begun, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    def handle(task: Task) -> None:
        ran.append(task.url)
        begun.set()
        assert may_end.wait(WAIT_SECONDS)

    write_new_key(tmp_path / "web1.key", key)
    worker = Worker(handle, ["work"], client=it.url, key=tmp_path / "web1.key", concurrency=1, prefetch=0)
    with (
        Client(it.url, key=key, timeout=WAIT_SECONDS) as producer,
        Client(it.url, key=authorise("admin"), timeout=WAIT_SECONDS) as admin,
        ThreadPoolExecutor(30) as threads,
    ):
        producer.push("work", "http://site/first")
        working = threads.submit(worker.run)
        assert begun.wait(WAIT_SECONDS)
        it.stop()
        pushed = [threads.submit(producer.push, "news", f"http://site/{number}") for number in range(20)]
        give_to(access, "web2", "web1", key)
        it.start()

        assert {each.result(WAIT_SECONDS) for each in pushed} == {"new"}
        assert admin.projects.get("news").counts.ready == 20
        producer.push("work", "http://site/second")
        may_end.set()
        while admin.projects.get("work").counts.success < 2:
            pass
        worker.stop()
        working.result(WAIT_SECONDS)
        assert ran == ["http://site/first", "http://site/second"]
        totals = admin.projects.get("work").totals
        assert (totals.success, totals.failed) == (2, 0)


def test_what_a_revoked_key_holds_comes_back_at_once_though_its_fetcher_is_not_connected(
    it: Daemon, authorise: Authorise, access: Path, peer: PeerFactory
) -> None:
    thief, other = authorise("thief", "fetcher"), authorise("other")
    it.start()
    with Client(it.url, key=other) as client:
        client.push("news", "http://site/", taskid="a")
        stolen = peer(it, key=thief)
        taken_by(stolen, capacity=1000)
        stolen.close()
        while not client.daemon.show().shell["undelivered"]:  # from then on the daemon knows that it is gone
            client.push("news", "http://site/", taskid=uuid.uuid4().hex)
        assert client.tasks.get("news", "a").state == "processing"

        access_file.revoke(access, "thief")

        while "a" not in {task.taskid for task in client.select(1000, timeout=WAIT_SECONDS)}:
            pass
        found = client.tasks.get("news", "a")
        assert (found.crashes, found.retried, found.history) == (0, 0, [])


@pytest.mark.parametrize("how", ["revoked", "expired", "without the right"])
def test_what_a_key_holds_comes_back_at_once_if_it_was_taken_back_while_the_daemon_was_down(
    it: Daemon, authorise: Authorise, access: Path, peer: PeerFactory, how: str
) -> None:
    thief, honest, other = authorise("thief", "fetcher"), authorise("honest", "fetcher"), authorise("other")
    it.start()
    with Client(it.url, key=other, timeout=WAIT_SECONDS) as client:
        for key, project in ((thief, "theirs"), (honest, "ours")):
            client.push(project, "http://site/", taskid="a")
            taken_by(peer(it, key=key), projects=[project])
        it.stop()
        if how == "revoked":
            access_file.revoke(access, "thief")
        elif how == "expired":
            access_file.change(access, "thief", expires_at=1.0)
        else:
            access_file.change(access, "thief", role="viewer")
        it.start()

        (task,) = client.select(timeout=WAIT_SECONDS)
        assert (task.project, client.tasks.get("ours", "a").state) == ("theirs", "processing")
        found = client.tasks.get("theirs", "a")
        assert (found.crashes, found.retried, found.history) == (0, 0, [])


def test_the_log_of_changes_names_the_key_and_what_its_client_says_of_itself(it: Daemon, authorise: Authorise) -> None:
    authorise("reader", "viewer")
    key = authorise("ops", "operator")
    it.configure(projects={"news": {}})
    it.start()

    with Client(it.url, key=key, name="cron@web1") as client:
        client.projects.pause("news")
        (entry, *_) = client.log.list().items
    assert entry.actor == "ops (said: cron@web1)"
