"""Client, the blocking facade, against a scripted daemon."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from msgspec import Raw

from taskqueue import Client, ClientClosed, PushedTask
from taskqueue.protocol.fetchers import Hello, Release, Select
from taskqueue.protocol.fields import Token
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import Assignment
from tests.unit.client.conftest import WAIT_SECONDS, Daemon, friendly


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.url, timeout=20) as client:
        yield client


def hand_out_when_wanted(daemon: Daemon, capacity: int, *tokens: int) -> threading.Thread:
    """Dispatch tasks as soon as the daemon has received a hello with that capacity."""

    def wait() -> None:
        while daemon.hear(Hello).capacity != capacity:
            pass
        daemon.hand_out(*tokens)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_task_is_pushed_selected_and_done(daemon: Daemon, client: Client) -> None:
    assert client.push("p", "http://a/", priority=3) == "new"
    handing = hand_out_when_wanted(daemon, 2, 1)
    [task] = client.select(2)
    handing.join()

    finish = client.done(task, ["http://b/"])

    assert finish.outcome == "done"
    [item] = daemon.hear(Done).tasks
    assert item is not None
    assert [new.url for new in item.new if new] == ["http://b/"]


def test_push_many_reads_its_iterable_in_the_callers_thread(daemon: Daemon, client: Client) -> None:
    threads = set()

    def urls() -> Iterator[str]:
        for n in range(100):
            threads.add(threading.current_thread())
            yield f"http://a/{n}"

    told = []

    def note(outcome: PushedTask) -> None:
        threads.add(threading.current_thread())
        told.append(outcome.index)

    pushed = client.push_many(
        "p", urls(), batch=10, outcomes=note, progress=lambda _: threads.add(threading.current_thread())
    )
    assert told == list(range(100))

    assert pushed.new == 100
    assert threads == {threading.current_thread()}


def test_a_blocking_push_many_reads_no_further_than_its_window(daemon: Daemon) -> None:
    daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []
    read: list[int] = []
    has_read_ahead = threading.Event()

    def urls() -> Iterator[str]:
        for n in range(10_000):
            read.append(n)
            if len(read) == 40:
                has_read_ahead.set()
            yield f"http://a/{n}"

    with ThreadPoolExecutor(1) as thread:
        with Client(daemon.url) as client:
            pushing = thread.submit(client.push_many, "p", urls(), batch=10, in_flight=3)
            for _ in range(3):
                daemon.hear(NewTasks)
            assert has_read_ahead.wait(WAIT_SECONDS)
        assert isinstance(pushing.exception(), ClientClosed)

    assert len(read) == 40


def test_tasks_are_yielded_until_the_loop_is_left(daemon: Daemon, client: Client) -> None:
    handing = hand_out_when_wanted(daemon, 4, 1, 2, 3)
    taken = []
    tasks = client.stream(places=4)
    for task in tasks:
        taken.append(task.token)
        client.done(task)
        if len(taken) == 2:
            break
    tasks.close()  # type: ignore[attr-defined]
    handing.join()

    assert taken == [1, 2]
    assert [lease.token for lease in daemon.hear(Release).leases] == [3]


def test_tasks_keep_what_their_project_said_of_fetching_when_they_were_handed_out(
    daemon: Daemon, client: Client
) -> None:
    def say() -> None:
        while daemon.hear(Hello).capacity != 4:
            pass
        for number, (tokens, proxy) in enumerate([((1, 2), b"\xa1A"), ((3,), b"\xa1B"), ((4,), b"")], start=1):
            tasks = [Assignment("p", f"t{token}", "http://a/", Token(token), 600.0) for token in tokens]
            fetch = {"p": Raw(b"\x81\xa5proxy" + proxy), "q": Raw(b"\x80")} if proxy else {}
            daemon.say(Select(number=number, tasks=tasks, fetch=fetch))

    handing = threading.Thread(target=say)
    handing.start()
    fetched = [task.fetch for task in islice(client.stream(places=4), 4)]
    handing.join()

    assert fetched == [{"proxy": "A"}, {"proxy": "A"}, {"proxy": "B"}, {}]


def test_any_thread_may_call(daemon: Daemon, client: Client) -> None:
    with ThreadPoolExecutor(16) as threads:
        outcomes = list(threads.map(lambda n: client.push("p", f"http://a/{n}"), range(200)))

    assert outcomes == ["new"] * 200
    urls = [task.url for request in daemon.heard if isinstance(request, NewTasks) for task in request.tasks if task]
    assert sorted(urls) == sorted(f"http://a/{n}" for n in range(200))


def test_the_url_comes_from_the_environment_when_the_client_is_made(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", daemon.url)
    with Client() as client:
        monkeypatch.setenv("TASKQUEUE_DAEMON", "tcp://127.0.0.1:9")

        assert client.push("p", "http://a/") == "new"


def test_without_anything_said_the_url_is_the_daemons_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKQUEUE_DAEMON", raising=False)
    with Client() as client:
        assert client.daemon_address == "tcp://127.0.0.1:7400"


def test_a_closed_client_says_so_and_leaves_no_thread(daemon: Daemon) -> None:
    before = threading.active_count()
    client = Client(daemon.url)
    client.push("p", "http://a/")

    client.close()
    client.close()

    assert threading.active_count() == before
    with pytest.raises(ClientClosed):
        client.push("p", "http://a/")


def test_the_name_is_told_to_the_daemon(daemon: Daemon) -> None:
    with Client(daemon.url, name="crawler 7") as client:
        client.push("p", "http://a/")

    assert daemon.hear(Hello).name == "crawler 7"


def test_tokens_are_heard_from_while_the_user_computes(daemon: Daemon) -> None:
    def short(request: object) -> list[object]:
        replies = friendly(request)  # type: ignore[arg-type]
        for reply in replies:
            if hasattr(reply, "fetcher_timeout"):
                reply.fetcher_timeout = 0.15
        return list(replies)

    daemon.script = short  # type: ignore[assignment]
    with Client(daemon.url) as client:
        handing = hand_out_when_wanted(daemon, 1, 1)
        client.select(1)
        handing.join()

        while daemon.hear(Hello).holds != [1]:
            pass
        heartbeats = [daemon.hear(Hello) for _ in range(4)]

    assert [heartbeat.holds for heartbeat in heartbeats] == [[1]] * 4
