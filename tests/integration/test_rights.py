"""Rights of keys on a real socket, by role and by project, as docs/reference/rights.md has them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgpack
import pytest
import zmq
from msgspec.structs import replace

from taskqueue import AsyncClient, Client, RequestRejected, Worker, new_task
from taskqueue.access import access_file
from taskqueue.access.key_file import KeyFile, write_new_key
from taskqueue.access.rights import request_name
from taskqueue.client.connection.connection import present_key
from taskqueue.protocol.base import WaitingRequest
from taskqueue.protocol.callers import RIGHTS_OF, ROLES, Right, Role
from taskqueue.protocol.codec import encode
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.messages import REQUESTS, AnyRequest
from tests.integration.conftest import ROOT, WAIT_SECONDS, Authorise, Daemon, DaemonFactory

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "rights.md").read_text(encoding="utf-8")


def variants(kind: type[AnyRequest]) -> Iterator[Any]:
    """Requests of a type: one for each action."""
    example: Any = EXAMPLES[kind]
    if kind is Hello:
        yield Hello(capacity=1)
        yield Hello(capacity=0)
    elif hasattr(example, "action"):
        hint = get_type_hints(kind)["action"]
        yield from (replace(example, action=action) for action in get_args(hint))
    elif isinstance(example, WaitingRequest):
        changed: Any = {"seconds": 0.0}
        yield replace(example, **changed)
    else:
        yield example


CASES: Final = tuple(
    replace(each, session="s", n=n)
    for n, each in enumerate((each for kind in REQUESTS for each in variants(kind)), start=1)
)


def page_rights() -> dict[str, Right]:
    """Right of each request that the page names."""
    rows = re.findall(r"^\| (look|push|work|run|rule|speaks-for-others) \| (`.*) \|$", PAGE, re.MULTILINE)
    return {name: right for right, requests in rows for name in re.findall(r"`([^`]+)`", requests)}


def allowed(role: Role) -> set[str]:
    """Names of the cases that the page allows a role; each may say hello."""
    rights = page_rights()
    return {"hello"} | {
        name for each in CASES if rights.get(name := request_name(each), rights.get(name.split()[0])) in RIGHTS_OF[role]
    }


@pytest.fixture
def it(daemon: DaemonFactory, tmp_path: Path) -> Daemon:
    """A daemon with keys and one project."""
    it = daemon(start=False, projects={"news": {}})
    it.configure(keys=str(tmp_path / "access.json"))
    return it


@contextmanager
def dealer(url: str, key: KeyFile) -> Iterator[zmq.Socket[bytes]]:
    """A socket with a key."""
    made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    with made as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, WAIT_SECONDS * 1000)
        present_key(socket, key)
        socket.connect(url)
        yield socket


def answers(url: str, key: KeyFile) -> dict[str, str]:
    """By name of each case, the error code of its answer; empty: it was no error."""
    names = {each.n: request_name(each) for each in CASES}
    found: dict[str, str] = {}
    with dealer(url, key) as socket:
        for each in CASES:
            socket.send(encode(each))
        while len(found) < len(CASES):
            message = msgpack.unpackb(socket.recv())
            if message.get("n") in names:
                found[names[message["n"]]] = message.get("code", "")
    return found


def test_the_page_names_each_request_and_no_other() -> None:
    names = {request_name(each) for each in CASES}
    kinds = {name.split()[0] for name in names}

    assert not {name for name in names if name not in page_rights() and name.split()[0] not in page_rights()}
    assert not set(page_rights()) - names - kinds


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_send_what_the_page_says_and_is_refused_all_else(
    role: Role, it: Daemon, authorise: Authorise
) -> None:
    key = authorise("web1", role)
    it.start()

    found = answers(it.url, key)

    assert {name for name, code in found.items() if code != "forbidden"} == allowed(role)


def test_only_an_admin_creates_a_project(it: Daemon, authorise: Authorise) -> None:
    operator, producer, admin = authorise("ops", "operator"), authorise("shop", "producer"), authorise("anna", "admin")
    it.configure(auto_create=True)
    it.start()

    with Client(it.url, key=operator) as client, pytest.raises(RequestRejected, match="takes an admin") as refused:
        client.projects.start("blog")
    with Client(it.url, key=producer) as client:
        with pytest.raises(RequestRejected, match="making one takes an admin"):
            client.push("blog", "http://site/")
        assert client.push("news", "http://site/") == "new"
    with Client(it.url, key=admin) as client:
        assert client.push("blog", "http://site/") == "new"
    assert refused.value.code == "forbidden"


def test_another_role_in_the_access_file_holds_for_connections_that_exist(
    it: Daemon, authorise: Authorise, tmp_path: Path
) -> None:
    key = authorise("web1", "viewer")
    it.start()

    with Client(it.url, key=key) as client:
        with pytest.raises(RequestRejected, match="web1 is a viewer, and project-do pause takes an operator"):
            client.projects.pause("news")
        path = tmp_path / "access.json"
        path.write_text(path.read_text().replace("viewer", "operator"))
        it.wait_for_log("keys-read")

        assert client.projects.pause("news").state == "paused"


@pytest.mark.parametrize("timeout", [WAIT_SECONDS, 0], ids=["waiting", "at-once"])
def test_a_client_that_may_not_work_is_told_so_when_it_takes_tasks_and_goes_on_pushing(
    timeout: float, it: Daemon, authorise: Authorise
) -> None:
    key = authorise("shop", "producer")
    it.start()

    with Client(it.url, key=key) as client:
        with pytest.raises(RequestRejected, match="taking tasks takes the role fetcher"):
            client.select(timeout=timeout)

        assert client.push("news", "http://site/") == "new"


def test_a_worker_that_may_not_work_ends_with_the_reason(it: Daemon, authorise: Authorise, tmp_path: Path) -> None:
    write_new_key(tmp_path / "shop.key", authorise("shop", "producer"))
    it.start()
    worker = Worker(lambda task: None, ["news"], client=it.url, key=tmp_path / "shop.key")

    with pytest.raises(RequestRejected, match="taking tasks takes the role fetcher"):
        worker.run()


# ------------------------------------------------------------------------------------------------ projects


@pytest.fixture
def shops(it: Daemon) -> Daemon:
    """A daemon with keys and projects, some of which begin with ``news-``."""
    it.configure(projects={"news-a": {}, "news-b": {}, "shop": {}})
    return it


def said_of(errors: dict[str, str]) -> dict[str, str]:
    """Errors by url, without the name of the project, which is all that may differ."""
    return {url: re.sub(r'"[a-z]+"', "?", error) for url, error in errors.items()}


def test_of_pushes_in_one_message_only_those_of_other_projects_fail(shops: Daemon, authorise: Authorise) -> None:
    producer, admin = authorise("web1", "producer", "news-*"), authorise("anna", "admin")
    shops.start()

    async def push_all() -> list[str | BaseException]:
        async with AsyncClient(shops.url, key=producer) as client:
            await client.operations.list()  # from here on they leave together
            projects = ("shop", "news-a", "bank", "news-b")
            pushes = (client.push(project, f"http://site/{project}") for project in projects)
            return await asyncio.gather(*pushes, return_exceptions=True)

    shop, a, bank, b = asyncio.run(push_all())

    assert (a, b) == ("new", "new")
    assert isinstance(shop, RequestRejected)
    assert isinstance(bank, RequestRejected)
    assert (shop.code, bank.code) == ("forbidden", "forbidden")
    assert shop.reason.startswith('project: web1 reaches news-*, and project "shop" is outside')
    assert bank.reason == shop.reason.replace("shop", "bank")
    with Client(shops.url, key=admin) as client:
        assert client.projects.get("shop").totals.new == 0
        with pytest.raises(RequestRejected):
            client.projects.get("bank")
    shops.wait_for_log("forbidden count=1 key=web1")


def test_a_push_of_many_counts_those_outside_as_rejected(shops: Daemon, authorise: Authorise) -> None:
    producer = authorise("web1", "producer", "news-*")
    shops.start()

    with Client(shops.url, key=producer) as client:
        pushed = client.push_many(
            "news-a", ["http://site/1", new_task("http://site/2", project="shop"), "http://site/3"]
        )

    assert (pushed.new, pushed.rejected) == (2, 1)
    assert pushed.errors[0].startswith("task 1: project: web1 reaches news-*")


def test_parents_of_other_projects_are_refused_whether_they_exist_or_not(shops: Daemon, authorise: Authorise) -> None:
    producer, admin = authorise("web1", "producer", "news-*"), authorise("anna", "admin")
    shops.start()
    errors = {}

    with Client(shops.url, key=admin) as client:
        client.push("shop", "http://site/", taskid="known")
    with Client(shops.url, key=producer) as client:
        for parent in (("shop", "known"), ("shop", "unknown"), ("bank", "known")):
            url = f"http://site/{'/'.join(parent)}"
            with pytest.raises(RequestRejected) as refused:
                client.push("news-a", url, depends_on=[parent])
            errors[url] = f"{refused.value.code}: {refused.value.reason}"
        assert client.push("news-a", "http://site/", depends_on=[("news-b", "x")]) == "new"

    (same,) = set(said_of(errors).values())
    assert same.startswith("forbidden: depends_on: web1 reaches news-*, and project ? is outside")


def test_a_report_counts_although_some_of_its_new_tasks_are_of_other_projects(
    shops: Daemon, authorise: Authorise
) -> None:
    fetcher, admin = authorise("web1", "fetcher", "news-*"), authorise("anna", "admin")
    shops.start()

    with Client(shops.url, key=admin) as client:
        client.push("news-a", "http://site/", taskid="page")
    with Client(shops.url, key=fetcher) as client:
        (task,) = client.select(projects=["news-a"])
        said = client.done(
            task,
            [
                "http://site/1",
                new_task("http://site/2", project="news-b"),
                new_task("http://site/3", project="shop"),
                new_task("http://site/4", project="bank"),
                new_task("http://site/5", depends_on=[("shop", "x")]),
            ],
        )

    assert (said.outcome, said.new) == ("done", ["new", "new", "rejected", "rejected", "rejected"])
    assert sorted(said.reasons) == [2, 3, 4]
    assert said.reasons[3] == said.reasons[2].replace("shop", "bank")
    with Client(shops.url, key=admin) as client:
        assert client.tasks.get("news-a", "page").state == "success"
        assert [client.projects.get(name).totals.new for name in ("news-a", "news-b", "shop")] == [2, 1, 0]


def test_leases_of_other_projects_are_not_in_force_for_a_key(shops: Daemon, authorise: Authorise) -> None:
    fetcher, admin = authorise("web1", "fetcher", "news-*"), authorise("anna", "admin")
    shops.start()

    with Client(shops.url, key=admin) as owner, Client(shops.url, key=fetcher) as client:
        owner.push("shop", "http://site/")
        (task,) = owner.select()
        client.push("news-a", "http://site/")
        (own,) = client.select(projects=["news-a"])

        with pytest.raises(RequestRejected, match='project "shop" is outside') as refused:
            client.done(task)
        assert refused.value.code == "forbidden"
        client.release(task)
        assert owner.projects.get("shop").counts.processing == 1
        assert client.done(own).outcome == "done"
        assert owner.done(task).outcome == "done"


def test_a_fetcher_of_some_projects_has_to_name_them(shops: Daemon, authorise: Authorise) -> None:
    fetcher, admin = authorise("web1", "fetcher", "news-*", "blog"), authorise("anna", "admin")
    shops.start()

    with Client(shops.url, key=admin) as client:
        for project in ("shop", "news-a"):
            client.push(project, "http://site/")
    with Client(shops.url, key=fetcher) as client:
        with pytest.raises(RequestRejected, match=r"^name projects: your key has news-\*, blog$") as refused:
            client.select()
        with pytest.raises(RequestRejected, match='project "shop" is outside'):
            client.select(projects=["news-a", "shop"])
        assert [task.project for task in client.select(2, projects=["news-a", "news-b"])] == ["news-a"]
    assert refused.value.code == "forbidden"


def test_a_worker_that_names_no_projects_ends_with_what_its_key_has(
    shops: Daemon, authorise: Authorise, tmp_path: Path
) -> None:
    write_new_key(tmp_path / "web1.key", authorise("web1", "fetcher", "news-*"))
    shops.start()
    (tmp_path / "crawler.py").write_text("def crawl(task): pass\n")

    ended = subprocess.run(
        [sys.executable, "-m", "taskqueue", "work", "crawler:crawl", "--daemon", shops.url, "--key", "web1.key"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip

    assert ended.returncode == 77
    assert ended.stderr.splitlines()[-1] == "taskqueue: name projects: your key has news-*"


def test_more_projects_reach_clients_that_are_connected(shops: Daemon, authorise: Authorise, tmp_path: Path) -> None:
    producer, admin = authorise("web1", "producer", "news-*"), authorise("anna", "admin")
    shops.start()

    with Client(shops.url, key=producer) as client, Client(shops.url, key=admin) as owner:
        with pytest.raises(RequestRejected, match="reaches news-"):
            client.push("shop", "http://site/")
        access_file.change(tmp_path / "access.json", "web1", ["news-*", "shop"])
        shops.wait_for_log("keys-read")
        assert client.push("shop", "http://site/") == "new"
        assert owner.daemon.show().shell["closed_revoked"] == 0


def test_a_fetcher_whose_key_loses_projects_gets_no_more_of_them_and_goes_on_with_the_others(
    shops: Daemon, authorise: Authorise, tmp_path: Path
) -> None:
    fetcher, admin = authorise("web1", "fetcher", "news-*", "shop"), authorise("anna", "admin")
    shops.configure(fetcher_timeout=3600.0)
    shops.start()

    with Client(shops.url, key=admin) as owner, Client(shops.url, key=fetcher) as client:
        owner.push("shop", "http://site/")
        (held,) = client.select(projects=["news-a", "shop"])
        access_file.change(tmp_path / "access.json", "web1", ["news-*"])
        shops.wait_for_log("key-narrowed key=web1 connections=1")
        while owner.projects.get("shop").counts.ready == 0:
            pass

        with pytest.raises(RequestRejected, match='project "shop" is outside'):
            client.done(held)
        with pytest.raises(RequestRejected, match='project "shop" is outside'):
            client.select(projects=["news-a", "shop"])
        owner.push("news-a", "http://site/")
        (task,) = client.select(2, projects=["news-a"])
        assert client.done(task).outcome == "done"
        (again,) = owner.select(projects=["shop"])
        assert (again.taskid, owner.tasks.get("shop", again.taskid).crashes) == (held.taskid, 0)
        owner.done(again)
