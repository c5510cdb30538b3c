"""Which requests each role may send, on a real socket: what docs/reference/rights.md says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgpack
import pytest
import zmq
from msgspec.structs import replace

from taskqueue import Client, RequestRejected, Worker
from taskqueue.access import access_file
from taskqueue.access.key_file import KeyFile, make_key, server_key, write_new_key
from taskqueue.access.rights import request_name
from taskqueue.protocol.base import WaitingRequest
from taskqueue.protocol.callers import RIGHTS_OF, ROLES, Right, Role
from taskqueue.protocol.codec import encode
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.messages import REQUESTS, AnyRequest
from tests.integration.conftest import WAIT_SECONDS, Daemon, DaemonFactory

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
    rows = re.findall(r"^\| (look|push|work|run|rule) \| (`.*) \|$", PAGE, re.MULTILINE)
    return {name: right for right, requests in rows for name in re.findall(r"`([^`]+)`", requests)}


def allowed(role: Role) -> set[str]:
    """Names of the cases that the page allows a role."""
    rights = page_rights()
    return {
        name for each in CASES if rights.get(name := request_name(each), rights.get(name.split()[0])) in RIGHTS_OF[role]
    }


Authorise = Callable[[str, Role], KeyFile]


@pytest.fixture
def it(daemon: DaemonFactory, tmp_path: Path) -> Daemon:
    """A daemon with keys and one project."""
    it = daemon(start=False, projects={"news": {}})
    it.configure(keys=str(tmp_path / "access.json"))
    return it


@pytest.fixture
def authorise(tmp_path: Path) -> Authorise:
    """Make a key of a name, and let it in with a role."""

    def authorise(name: str, role: Role) -> KeyFile:
        made = make_key(name, server_key(tmp_path).public)
        access_file.authorise(tmp_path / "access.json", name, made.public, role)
        return made

    return authorise


@contextmanager
def dealer(url: str, key: KeyFile) -> Iterator[zmq.Socket[bytes]]:
    """A socket with a key."""
    made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    with made as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, WAIT_SECONDS * 1000)
        for option, half in (
            (zmq.CURVE_PUBLICKEY, key.public), (zmq.CURVE_SECRETKEY, key.secret), (zmq.CURVE_SERVERKEY, key.server),
        ):  # fmt: skip
            socket.setsockopt(option, bytes.fromhex(half))
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
        with pytest.raises(RequestRejected, match="hello with capacity takes a fetcher"):
            client.select(timeout=timeout)

        assert client.push("news", "http://site/") == "new"


def test_a_worker_that_may_not_work_ends_with_the_reason(it: Daemon, authorise: Authorise, tmp_path: Path) -> None:
    write_new_key(tmp_path / "shop.key", authorise("shop", "producer"))
    it.start()
    worker = Worker(lambda task: None, ["news"], client=it.url, key=tmp_path / "shop.key")

    with pytest.raises(RequestRejected, match="hello with capacity takes a fetcher"):
        worker.run()
