"""Daemons with a socket file: who may use it, what its users may do, and how it stands beside TCP with keys."""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import ExitStack
from pathlib import Path

import msgpack
import pytest
import zmq

from taskqueue import Client, RequestRejected
from taskqueue.access.key_file import KeyFile
from taskqueue.server.network.local_users import user_name
from tests.integration.conftest import WAIT_SECONDS, Daemon, DaemonFactory, PeerFactory, authorised
from tests.integration.test_keys import run
from tests.integration.test_rights import dealer

OWN_NAME = user_name(os.geteuid())
TCP = "tcp://127.0.0.1:*"
MANY = 100
"""More connections than an address may begin within a second by TCP with keys."""


@pytest.fixture
def it(daemon: DaemonFactory, tmp_path: Path) -> Daemon:
    """A daemon with keys, at TCP and at a socket file, and one project."""
    it = daemon(start=False, projects={"news": {}})
    it.binds = [TCP, f"ipc://{tmp_path}/socket"]
    it.configure(keys=str(tmp_path / "access.json"))
    return it


def test_users_by_ipc_need_no_key_while_others_by_tcp_do(it: Daemon, peer: PeerFactory, tmp_path: Path) -> None:
    key = authorised(tmp_path, "web1", "admin")
    it.start()
    tcp, ipc = it.urls
    stranger = peer(it)

    stranger.send("status")
    with Client(ipc) as local, Client(tcp, key=key) as remote:
        assert local.push("news", "http://site/1") == "new"
        assert remote.push("news", "http://site/2") == "new"
        assert remote.push("news", "http://site/1") == "ignored"
    assert not stranger.has_message(0)
    assert "key-met key=web1 address=127.0.0.1" in it.log()
    assert f"user-met key={OWN_NAME} address=ipc" in it.log()


def test_users_by_ipc_may_do_what_the_setting_says_and_no_more(it: Daemon) -> None:
    it.configure(ipc_role="viewer")
    it.start()

    with Client(it.urls[1]) as client:
        assert client.projects.get("news").state == "running"
        with pytest.raises(RequestRejected, match=f"{OWN_NAME} is a viewer, and project-do pause") as refused:
            client.projects.pause("news")
    assert refused.value.code == "forbidden"


def test_without_keys_too_users_by_ipc_have_the_role_of_the_setting(it: Daemon) -> None:
    it.configure(keys="", ipc_role="producer")
    it.start()

    with Client(it.urls[0]) as anybody, Client(it.urls[1]) as local:
        assert local.push("news", "http://site/") == "new"
        with pytest.raises(RequestRejected, match="takes an operator"):
            local.projects.pause("news")
        assert anybody.projects.pause("news").state == "paused"


def test_many_connections_by_ipc_at_once_are_not_hasty(it: Daemon) -> None:
    it.start()

    with ExitStack() as stack:
        clients = [stack.enter_context(Client(it.urls[1])) for _ in range(MANY)]
        assert [client.push("news", f"http://site/{n}") for n, client in enumerate(clients)] == MANY * ["new"]
    assert "connections-hasty" not in it.log()


def test_the_group_of_the_setting_alone_may_use_the_socket_file(it: Daemon, tmp_path: Path) -> None:
    own = os.getgroups()
    group = 12_345 if os.geteuid() == 0 else next((each for each in own if each != os.getegid()), os.getegid())
    it.configure(ipc_group=str(group))

    it.start()

    found = (tmp_path / "socket").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid, found.st_uid) == (0o660, group, os.geteuid())


def test_a_group_that_is_not_there_is_refused(it: Daemon) -> None:
    it.configure(ipc_group="nowhere-to-be-found")
    it.launch()

    assert it.ended() == 2
    assert 'daemon.ipc_group: there is no group "nowhere-to-be-found"' in it.log()


def test_a_second_daemon_at_the_same_socket_file_is_refused_until_the_first_has_ended(
    it: Daemon, daemon: DaemonFactory, tmp_path: Path
) -> None:
    it.start()
    second = daemon(start=False)
    second.url = it.urls[1]
    second.launch()

    assert second.ended() == 1
    assert f"another daemon listens on {it.urls[1]}" in second.log()
    with Client(it.urls[1]) as client:
        assert client.push("news", "http://site/") == "new"

    it.kill()
    second.start()


def test_each_address_is_asked_whether_others_reach_it(it: Daemon) -> None:
    it.binds = [TCP, "tcp://0.0.0.0:*"]
    it.configure(keys="")
    it.launch()

    assert it.ended() == 2
    assert "daemon.bind: tcp://0.0.0.0:* listens on tcp://0.0.0.0:" in it.log()
    assert "taskqueue key authorise" in it.log()
    assert "--insecure" in it.log()


def test_a_name_without_a_file_is_refused_beside_keys(it: Daemon) -> None:
    it.binds = [TCP, "ipc://@taskqueue-of-a-test"]
    it.launch()

    assert it.ended() == 2
    assert "ipc://@taskqueue-of-a-test has no file with a mode, so all users of this machine reach it" in it.log()


def test_what_is_meant_for_a_name_reaches_no_other_with_the_same_routing_id(it: Daemon, tmp_path: Path) -> None:
    fetcher, thief = authorised(tmp_path, "web1", "fetcher"), authorised(tmp_path, "thief", "viewer")
    it.start()
    tcp, ipc = it.urls

    def say(socket: zmq.Socket[bytes], kind: str, **fields: object) -> None:
        socket.send(msgpack.packb({"type": kind, "v": 1} | fields))

    def claimed(key: KeyFile) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, WAIT_SECONDS * 1000)
        socket.setsockopt(zmq.ROUTING_ID, b"claimed")
        for option, half in (
            (zmq.CURVE_PUBLICKEY, key.public), (zmq.CURVE_SECRETKEY, key.secret), (zmq.CURVE_SERVERKEY, key.server),
        ):  # fmt: skip
            socket.setsockopt(option, bytes.fromhex(half))
        socket.connect(tcp)
        return socket

    with claimed(fetcher) as socket:
        say(socket, "hello", session="fetcher", n=1, capacity=10, projects=["news"])
        assert msgpack.unpackb(socket.recv())["type"] == "welcome"
    answer = b""
    while not answer:  # until the daemon knows the end of the former connection
        with claimed(thief) as socket:
            socket.setsockopt(zmq.RCVTIMEO, 1000)
            say(socket, "daemon-show", session="thief", n=1)
            if not socket.poll(1000):
                continue
            answer = socket.recv()
            with Client(ipc) as client:
                assert client.push("news", "http://site/") == "new"
            socket.setsockopt(zmq.RCVTIMEO, WAIT_SECONDS * 1000)
            say(socket, "daemon-show", session="thief", n=2)
            seen = msgpack.unpackb(socket.recv())
            assert (seen["type"], seen["n"]) == ("daemon-reply", 2)


def test_key_list_tells_when_and_from_where_each_key_and_each_user_was_there(it: Daemon, tmp_path: Path) -> None:
    web1, late = authorised(tmp_path, "web1", "viewer"), authorised(tmp_path, "late", "fetcher")
    assert late.name == "late"
    it.start()
    keys = ("key", "list", "--json", "--keys", str(tmp_path / "access.json"))

    with Client(it.urls[0], key=web1) as client, Client(it.urls[1]) as local:
        local.push("news", "http://site/")
        with pytest.raises(RequestRejected):
            client.projects.pause("news")
        with dealer(it.urls[0], web1) as another:
            another.send(msgpack.packb({"type": "daemon-show", "v": 1, "session": "s", "n": 1}))
            another.recv()
            told = run(it, *keys, cwd=tmp_path)
        table = run(it, *keys[:2], *keys[3:], cwd=tmp_path)
    by_name = {row["name"]: row["use"] for row in map(json.loads, told.stdout.splitlines())}

    assert told.stderr == ""
    assert by_name["web1"]["connections"] == 2
    assert (by_name["web1"]["address"], by_name["web1"]["forbidden"], by_name["web1"]["refused"]) == ("127.0.0.1", 1, 0)
    assert by_name["web1"]["seen_at"] > 1.7e9
    assert by_name["late"] == {
        "name": "late", "connections": 0, "seen_at": 0.0, "address": "", "forbidden": 0, "refused": 0,
    }  # fmt: skip
    user = by_name[OWN_NAME]
    assert (user["connections"], user["address"], user["seen_at"] > 1.7e9) == (1, "ipc", True)
    assert "last seen" in table.stdout
    assert re.search(rf"{re.escape(OWN_NAME)} +1 +0 +\(ipc_role\)", table.stdout)
    it.stop()
    without = run(it, *keys, cwd=tmp_path)
    rows = [json.loads(line) for line in without.stdout.splitlines()]
    assert (without.returncode, [row["name"] for row in rows]) == (0, ["web1", "late"])
    assert not any("use" in row for row in rows)
    assert "The daemon can't be asked" in without.stderr
