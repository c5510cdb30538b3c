"""The daemon as a process: it starts, answers, reloads, stops, is killed, and loses nothing."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgpack
import pytest
import zmq

from tests.integration.nursery import run_forked
from tests.zmtp import connected, frame

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, PeerFactory

MAX_MESSAGE = 512 << 10
HELLO_MS = 100


def start_refused(config: Path) -> subprocess.CompletedProcess[str]:
    """Run a daemon that must not start."""
    code = "import sys; from taskqueue.server.main import run; sys.exit(run(sys.argv[1]))"
    return run_forked([sys.executable, "-c", code, config])


# ---------------------------------------------------------------------------------------- start and answer


def test_at_start_it_says_where_it_listens_and_what_it_knows(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    peer(it).push("news", "a", "b")
    it.stop()

    it.start()

    assert f"listens on {it.url}, store={it.store_path} durability=commit" in it.started_with
    assert "projects=1 ready=2 delayed=0 processing=0" in it.started_with


def test_its_store_is_readable_by_its_owner_alone(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(start=False)
    it.store_path.mkdir(mode=0o755)

    it.start()
    peer(it).push("news", "a")

    assert {stat.S_IMODE(file.stat().st_mode) for file in it.store_path.iterdir()} == {0o600}
    assert f"chmod -R go= {it.store_path}" in it.wait_for_log("store-readable")


def test_a_reader_of_its_log_that_stands_still_holds_up_neither_its_answers_nor_its_stop(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(start=False)
    os.mkfifo(it.log_file)
    reader = os.open(it.log_file, os.O_RDWR)
    full = fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    it.start()
    client = peer(it)

    for rate in range(1, 60):
        client.ask("project-set", project="news", settings={"rate": rate}, actor="x" * 100)

    assert it.stop() == 0
    assert os.read(reader, full).count(b"change what=") > 10
    os.close(reader)


def test_a_task_goes_the_whole_way(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    producer, fetcher = peer(it), peer(it)

    pushed = producer.push("news", "a")
    fetcher.ask("hello", capacity=1)
    (task,) = fetcher.receive()["tasks"]
    done = fetcher.ask("done", tasks=[{"project": "news", "taskid": "a", "token": task["token"]}])

    assert (pushed, task["taskid"], done["outcomes"]) == (["new"], "a", ["done"])
    assert producer.ask("status")["counts"] == {"success": 1}


@pytest.mark.parametrize("routing_id", [b"", b"chosen"])
def test_a_fetcher_is_shown_with_the_address_of_its_machine(
    daemon: DaemonFactory, peer: PeerFactory, routing_id: bytes
) -> None:
    it = daemon()
    fetcher = peer(it, routing_id=routing_id)

    for _ in range(2):
        fetcher.ask("hello", capacity=1)
        assert [each["address"] for each in peer(it).ask("status")["fetchers"]] == ["127.0.0.1"]


def test_a_waiting_fetcher_gets_a_task_unasked(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    fetcher = peer(it)
    fetcher.ask("hello", capacity=1)

    peer(it).push("news", "a")

    assert fetcher.receive()["tasks"][0]["taskid"] == "a"


def test_status_tells_of_the_process_too(daemon: DaemonFactory, peer: PeerFactory) -> None:
    client = peer(daemon())
    client.push("news", "a")

    status = client.ask("status")

    assert status["version"]
    assert status["uptime_seconds"] > 0
    assert (status["shell"]["frames_in"], status["shell"]["writes"], status["shell"]["syncs"]) == (2, 1, 1)


# ---------------------------------------------------------------------------------------- asleep


def test_an_idle_daemon_sleeps(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    client, fetcher = peer(it), peer(it)
    fetcher.ask("hello", capacity=10)
    client.push("news", "a", delay=3600)
    before = client.shell()

    after = client.shell()

    # Only the second status request happened, however long it took. The report that the push is synced may come late,
    # and once a minute the project's windows are saved.
    assert after["wakeups"] - before["wakeups"] <= 2 + 2
    assert 1 <= after["turns"] - before["turns"] <= 2
    assert [after[name] - before[name] for name in ("frames_in", "frames_out")] == [1, 1]


def test_a_daemon_wakes_up_for_a_task_that_becomes_due(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    client, fetcher = peer(it), peer(it)
    fetcher.ask("hello", capacity=10)
    client.push("news", "later", delay=3600)
    client.push("news", "soon", delay=1)
    before = client.shell()

    selected = fetcher.receive()

    after = client.shell()
    assert [task["taskid"] for task in selected["tasks"]] == ["soon"]
    # One for the task, one for its sync, one for this status request, and some of ZeroMQ's own; the daemon never polls.
    assert after["wakeups"] - before["wakeups"] <= 6


# ---------------------------------------------------------------------------------------- bad peers


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([b""], "malformed"),
        ([b"\xc1"], "malformed"),
        ([b"hello?"], "malformed"),
        ([msgpack.packb({"type": "dance", "v": 1, "session": "s", "n": 7})], "malformed"),
        ([msgpack.packb({"type": "hello", "v": 2, "session": "s", "n": 7})], "version"),
        ([msgpack.packb({"type": "hello", "v": 1, "session": "s", "n": 7})] * 2, "malformed"),
        ([bytes(MAX_MESSAGE + 1)], "too-large"),
    ],
)
def test_what_is_no_request_is_answered_and_counted(
    daemon: DaemonFactory, peer: PeerFactory, frames: list[bytes], code: str
) -> None:
    it = daemon(max_message=MAX_MESSAGE)
    bad, good = peer(it), peer(it)

    bad.send_raw(*frames)
    answer = bad.receive()

    assert (answer["type"], answer["code"]) == ("error", code)
    assert answer["reason"]
    assert good.push("news", "a") == ["new"]
    assert good.shell()["malformed"] == 1


def test_an_error_names_the_request_if_it_can_be_read(daemon: DaemonFactory, peer: PeerFactory) -> None:
    client = peer(daemon())

    answer = client.ask("hello", capacity="many")

    assert answer["type"] == "error"
    assert "capacity" in answer["reason"]


def test_an_absurdly_long_message_costs_its_sender_the_connection_and_nobody_else(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(max_message=MAX_MESSAGE)
    bad, good = peer(it), peer(it)
    with bad.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED) as monitor:
        bad.send_raw(bytes(100 * MAX_MESSAGE))

        assert good.push("news", "a") == ["new"]
        assert zmq.select([monitor, bad.socket], [], [])[0] == [monitor]
        bad.socket.disable_monitor()
    assert good.shell()["frames_in"] == 2


def test_noise_on_the_port_disturbs_nobody(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    address = urlsplit(it.url)

    for noise in (b"GET / HTTP/1.1\r\n\r\n", struct.pack("<64Q", *range(64)), b""):
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(noise)

    assert peer(it).push("news", "a") == ["new"]


def test_what_is_meant_for_a_peer_that_has_gone_is_counted_and_offered_again(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(fetcher_timeout=3)
    gone, client = peer(it), peer(it)
    gone.ask("hello", capacity=10_000)
    gone.close()

    # The daemon sends to a dead peer until it has noticed, so push until a task can't leave.
    n = 0
    while not client.shell()["undelivered"]:
        client.push("news", f"task{n}")
        n += 1
    handed: dict[str, int] = {}
    fetcher = peer(it)
    while "task0" not in handed:
        fetcher.ask("hello", name="here", capacity=10_000, holds=list(handed.values()), seen=fetcher.seen)
        while fetcher.has_message(HELLO_MS):
            for task in fetcher.receive()["tasks"]:
                first_time = task["taskid"] not in handed
                assert first_time or it.wait_for_log("fetcher-silent fetcher=here ")  # this test was suspended
                handed[task["taskid"]] = task["token"]


@pytest.mark.parametrize("handout", ["written", "synced"])
def test_what_could_not_be_sent_to_a_peer_that_has_gone_does_not_wait_for_its_silence(
    daemon: DaemonFactory, peer: PeerFactory, handout: str
) -> None:
    it = daemon(fetcher_timeout=3600, handout=handout)
    gone, client = peer(it), peer(it)
    gone.ask("hello", capacity=10_000)
    gone.close()

    n = 0
    while not client.shell()["undelivered"]:
        n += 1
        client.push("news", f"task{n}")

    fetcher = peer(it)
    fetcher.ask("hello", capacity=10_000)
    assert f"task{n}" in [task["taskid"] for task in fetcher.receive()["tasks"]]


def test_who_claims_a_fetchers_routing_id_takes_nothing_of_it_and_a_fetcher_that_reconnects_goes_on(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon()
    fetcher, client = peer(it, routing_id=b"fetcher"), peer(it)
    fetcher.ask("hello", capacity=10)

    with connected(it.url, identity=b"fetcher") as thief:
        thief.sendall(frame(msgpack.packb({"type": "status", "v": 1, "session": "thief" * 4, "n": 1})))
        client.push("news", "a")
        first = fetcher.receive()["tasks"]

        again = peer(it, session=fetcher.session)  # its first connection is still open and silent
        again.n = fetcher.n
        again.ask("hello", capacity=10, holds=[task["token"] for task in first], seen=1)
        client.push("news", "b")
        second = again.receive()["tasks"]

        thief.setblocking(False)
        with pytest.raises(BlockingIOError):
            thief.recv(1)

    assert [task["taskid"] for task in first + second] == ["a", "b"]


# ---------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_it_cleanly(daemon: DaemonFactory, peer: PeerFactory, number: signal.Signals) -> None:
    it = daemon()
    peer(it).push("news", "a")

    assert it.stop(number) == 0
    assert "error" not in it.log().lower()
    assert it.log().endswith("INFO    stopped epoch=1\n")


def test_after_a_clean_stop_everything_is_there_again(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    peer(it).push("news", "a", "b")
    it.stop()

    it.start()

    assert peer(it).push("news", "a", "c") == ["ignored", "new"]


def test_after_a_clean_stop_the_windows_are_as_they_were(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    client = peer(it)
    client.push("news", "a", "b")
    before = client.ask("stats")["projects"][0]["windows"]

    it.stop()
    it.start()

    assert before["5m"]["new"] == 2
    assert peer(it).ask("stats")["projects"][0]["windows"] == before


def test_a_reload_changes_the_rate_and_keeps_every_task(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(projects={"news": {"rate": 0}})
    client, fetcher = peer(it), peer(it)
    client.push("news", *"abcdefgh")
    fetcher.ask("hello", capacity=10)

    it.configure(projects={"news": {"rate": float("inf")}})
    it.hangup()

    assert [task["taskid"] for task in fetcher.receive()["tasks"]] == [*"abcdefgh"]
    assert client.ask("status")["counts"] == {"processing": 8}


def test_a_bad_reload_keeps_the_old_config_and_says_why(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(projects={"news": {"rate": 5}})

    it.configure(projects={"news": {"rate": "fast"}})
    it.hangup()
    line = it.wait_for_log("config-refused")

    assert f'{it.config_file}: projects.news.rate must be a number of at least 0 or inf, not "fast"' in line
    assert "the old settings stay in force" in it.wait_for_log("config-kept")
    assert peer(it).ask("project-show", project="news")["project"]["settings"]["rate"] == 5.0


def test_a_reload_says_which_changes_wait_for_a_restart(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()

    it.configure(durability="none")
    it.hangup()

    assert "setting=store.durability" in it.wait_for_log("config-waits")
    client = peer(it)
    client.push("news", "a")  # After the record of the reload.
    before = client.shell()["syncs"]
    assert client.push("news", "b") == ["new"]
    assert client.shell()["syncs"] == before + 1


def test_a_reload_of_a_file_that_leaves_the_defaults_out_changes_nothing(daemon: DaemonFactory) -> None:
    it = daemon(defaults={"rate": 1.0})
    it.config_file.write_text("\n".join(line for line in it.config_file.read_text().splitlines() if "rate" not in line))

    it.hangup()

    assert 'detail="nothing has changed"' in it.wait_for_log('what="config reload"')


def test_a_reload_changes_what_is_logged(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()

    it.configure(log_level="debug")
    it.hangup()
    it.wait_for_log("config-reloaded")
    peer(it).push("news", "a")

    assert it.wait_for_log("new project").endswith("new project=news taskid=a url=http://site/a\n")


def test_at_the_end_it_sums_up_what_it_did(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    peer(it).push("news", "a", "b")

    it.stop()

    assert "new=2 selected=0 success=0 failed=0 retried=0 timeout=0 busiest=news:2" in it.log()


# ---------------------------------------------------------------------------------------- kill -9


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
def test_after_kill_9_everything_acknowledged_is_there(
    daemon: DaemonFactory, peer: PeerFactory, durability: str
) -> None:
    it = daemon(durability=durability)
    pushed = [f"task{n}" for n in range(500)]
    assert peer(it).push("news", *pushed) == ["new"] * 500

    it.kill()
    it.start()

    assert peer(it).push("news", *pushed) == ["ignored"] * 500


def test_after_kill_9_a_repeated_request_is_answered_and_not_done_again(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon()
    peer(it, "my-session").push("news", "a")

    it.kill()
    it.start()

    assert peer(it, "my-session").push("news", "a") == ["new"]


def test_after_kill_9_a_connected_client_goes_on_by_itself(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    client = peer(it)
    client.push("news", "a")

    it.kill()
    it.start()

    assert client.push("news", "b") == ["new"]


def test_after_kill_9_nothing_handed_out_is_handed_out_again(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    client, fetcher = peer(it), peer(it)
    client.push("news", "a", "b")
    fetcher.ask("hello", capacity=1)
    (held,) = fetcher.receive()["tasks"]

    it.kill()
    it.start()
    other = peer(it)
    other.ask("hello", capacity=10)

    assert (held["taskid"], [task["taskid"] for task in other.receive()["tasks"]]) == ("a", ["b"])
    assert fetcher.ask("done", tasks=[_finished(held)])["outcomes"] == ["done"]


# ---------------------------------------------------------------------------------------- what can't start


def test_a_bad_config_is_refused_line_by_line(tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_text("[daemon]\nport = 7400\n[projects.news]\nburst = 0\n")

    ended = start_refused(config)

    assert ended.returncode == 2
    assert [line.split(" ")[:3] for line in ended.stderr.splitlines()] == [
        ["taskqueue:", f"{config}:", "daemon.port"],
        ["taskqueue:", f"{config}:", "projects.news.burst"],
    ]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (None, 1, "can't be read: No such file or directory"),
        ("folder", 1, "can't be read: Is a directory"),
        ('{"daemon": {"bind": "tcp://127.0.0.1:0"}}', 2, "not TOML: Invalid statement (at line 1, column 1)"),
        ("[server\n", 2, "not TOML: "),
        (b"[daemon]\n# \xff\n", 2, "not UTF-8 at byte 11"),
        ("[daemon]\nbindd = 'tcp://127.0.0.1:0'\n", 2, "daemon.bindd is not a setting; did you mean bind?"),
        ("[limits]\nmax_leases = 0\n", 2, "limits.max_leases must be a whole number of at least 1"),
        ("[projects.news]\nrate = 'fast'\n", 2, 'projects.news.rate must be a number of at least 0 or inf, not "fast"'),
    ],
    ids=["missing", "folder", "json", "toml", "utf-8", "unknown", "range", "kind"],
)
@pytest.mark.parametrize("command", [("config", "check"), ("daemon", "start", "-c")], ids=" ".join)
def test_a_config_that_cant_be_ends_a_command_with_the_status_that_its_help_says(
    tmp_path: Path, command: tuple[str, ...], text: str | bytes | None, status: int, said: str
) -> None:
    config = tmp_path / "taskqueue.toml"
    if text == "folder":
        config.mkdir()
    elif text is not None:
        config.write_bytes(text if isinstance(text, bytes) else text.encode())

    ended = run_forked([sys.executable, "-m", "taskqueue", *command, config])

    assert (ended.returncode, ended.stdout) == (status, "")
    assert ended.stderr.startswith(f"taskqueue: {config}: {said}")


def test_an_address_in_use_is_named(daemon: DaemonFactory, tmp_path: Path) -> None:
    it = daemon()
    config = tmp_path / "second.toml"
    config.write_text(f'[daemon]\nbind = "{it.url}"\n[store]\npath = "{tmp_path}/data"\n')

    ended = start_refused(config)

    assert ended.returncode == 1
    assert ended.stderr == (
        f"taskqueue: can't listen on {it.url}: Address already in use; stop the program that listens there, perhaps a "
        "daemon, or name another address with --bind\n"
    )


def test_a_store_that_another_daemon_has_open_is_refused_in_one_line(daemon: DaemonFactory, tmp_path: Path) -> None:
    it = daemon()
    config = tmp_path / "second.toml"
    config.write_text(f'[daemon]\nbind = "tcp://127.0.0.1:*"\n[store]\npath = "{it.store_path}"\n')

    ended = start_refused(config)

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert str(it.store_path) in ended.stderr


def test_a_store_that_cant_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = tmp_path / "taskqueue.toml"
    config.write_text(f'[daemon]\nbind = "tcp://127.0.0.1:*"\n[store]\npath = "{tmp_path}/file/data"\n')

    ended = start_refused(config)

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert f"{tmp_path}/file/data" in ended.stderr


def _finished(task: dict[str, Any]) -> dict[str, Any]:
    return {key: task[key] for key in ("project", "taskid", "token")}


# ---------------------------------------------------------------------------------------- a disk that is nearly full


def test_on_a_nearly_full_disk_pushes_are_refused_and_done_is_taken_until_there_is_room(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon()
    producer, fetcher = peer(it), peer(it)
    producer.push("news", "a", "b")
    fetcher.ask("hello", capacity=1)
    (task,) = fetcher.receive()["tasks"]

    it.configure(min_free="1024 TiB")
    it.hangup()
    it.wait_for_log("disk-nearly-full")
    assert producer.ask("new-task", project="news", tasks=[{"taskid": "c", "url": "http://c"}])["code"] == "disk-full"
    finished = {"project": "news", "taskid": "a", "token": task["token"]}
    assert fetcher.ask("done", tasks=[finished])["outcomes"] == ["done"]

    it.configure(min_free=0)
    it.hangup()
    assert [task["taskid"] for task in fetcher.receive()["tasks"]] == ["b"]
    assert producer.push("news", "c") == ["new"]


def test_a_daemon_that_starts_on_a_nearly_full_disk_refuses_the_first_push(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(min_free="1024 TiB")

    refused = peer(it).ask("new-task", project="news", tasks=[{"taskid": "a", "url": "http://a"}])
    assert (refused["type"], refused["code"]) == ("error", "disk-full")
