"""State after kill -9: answers, leases, counts, retries, pauses and the bucket are what they were.

The rate law is checked from outside, where a dispatch is seen only after it happened. Two readings make it exact: a
fetcher of capacity 1 gets task i+1 only after it sent ``done`` for task i at S(i), and gets it at R(i+1),
so that dispatches j+1 … i all lie between S(j) and R(i), for every j < i:

    i - j  <=  burst + rate × (R(i) - S(j))
"""

from __future__ import annotations

import random
import time
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres import EITHER_STORE

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, Message, Peer, PeerFactory

pytestmark = EITHER_STORE

DURABILITIES = ["commit", "interval", "none"]

REQUESTS = 48
"""Requests sent without waiting for answers; a session has at most 64."""
TASKS_PER_REQUEST = 20

HELLO_MS = 100
"""Time between hellos of a fetcher that must not fall silent."""

ROUNDING = 1e-5
"""Tolerance in tokens, a tenth of what the bucket forgives."""


def new_tasks(*taskids: str, **schedule: Any) -> list[Message]:
    return [{"taskid": each, "url": f"http://site/{each}", "schedule": schedule} for each in taskids]


def finished(task: Message, **more: Any) -> Message:
    return {key: task[key] for key in ("project", "taskid", "token")} | more


def restart(it: Daemon) -> None:
    it.kill()
    it.start()


def totals(client: Peer, project: str = "news") -> dict[str, int]:
    return dict(client.ask("project-show", project=project)["project"]["totals"])


def boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# ---------------------------------------------------------------------------------------- answers


def answers(to: Peer, count: int) -> dict[int, Message]:
    """Collect the answers to requests 1 to ``count`` by number; repeated ones must be equal."""
    by_number: dict[int, Message] = {}
    while len(by_number) < count:
        message = to.receive()
        assert by_number.setdefault(message["n"], message) == message
    return by_number


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_requests_unanswered_at_a_kill_are_repeated_and_each_is_done_once(
    daemon: DaemonFactory, peer: PeerFactory, durability: str, seed: int
) -> None:
    it = daemon(durability=durability)
    chance = random.Random(seed)
    batches = [
        new_tasks(*(f"{number}-{each}" for each in range(TASKS_PER_REQUEST))) for number in range(1, REQUESTS + 1)
    ]
    first, again = peer(it, "producer"), peer(it, "producer")

    for batch in batches:
        first.send("new-task", project="news", tasks=batch)
    for _ in range(chance.randrange(REQUESTS)):
        first.receive()
    it.kill()
    first.close()  # it would still send what has not left yet
    it.start()
    for batch in batches:
        again.send("new-task", project="news", tasks=batch)
    answered = answers(again, REQUESTS)

    # A request that was done before the kill is answered as it was then: "new", not "ignored".
    assert {n: answer["outcomes"] for n, answer in answered.items()} == {
        n: ["new"] * TASKS_PER_REQUEST for n in range(1, REQUESTS + 1)
    }
    assert totals(again)["new"] == REQUESTS * TASKS_PER_REQUEST


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_done_unanswered_at_a_kill_is_repeated_and_counts_once_with_its_follow_ups(
    daemon: DaemonFactory, peer: PeerFactory, durability: str
) -> None:
    it = daemon(durability=durability)
    client, fetcher = peer(it), peer(it, "fetcher")
    client.push("news", *(f"task{n}" for n in range(REQUESTS)))
    fetcher.ask("hello", capacity=REQUESTS)
    tasks = fetcher.receive()["tasks"]
    reports = [[finished(task, new=new_tasks("after-" + task["taskid"], delay=60))] for task in tasks]

    for report in reports:
        fetcher.send("done", tasks=report)
    fetcher.receive()
    it.kill()
    fetcher.close()  # it would still send what has not left yet
    it.start()
    again = peer(it, "fetcher")
    again.n = 1
    numbers = [again.send("done", tasks=report) for report in reports]
    heard = [again.receive() for _ in (*numbers, "hello-wanted")]
    answered = [message for message in heard if message["type"] == "done-reply"]

    assert [answer["n"] for answer in answered] == numbers
    assert {(*answer["outcomes"], *answer["new"][0]) for answer in answered} == {("done", "new")}
    assert totals(client) == {"new": 2 * REQUESTS, "selected": REQUESTS, "success": REQUESTS}
    assert client.ask("status")["counts"] == {"delayed": REQUESTS, "success": REQUESTS}


# ---------------------------------------------------------------------------------------- state


def test_everything_about_a_task_is_what_it_was(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    client, fetcher = peer(it), peer(it)
    schedule = {"priority": 7, "retries": 5, "itag": "v1", "age": 60.0}
    task = new_tasks("a", **schedule)[0] | {"body": {"fetch": {"method": "POST"}, "save": [1, None, b"\xff", 2.5]}}
    client.ask("new-task", project="news", tasks=[task])
    fetcher.ask("hello", capacity=1)
    (handed,) = fetcher.receive()["tasks"]
    fetcher.ask("done", tasks=[finished(handed, ok=False, error="503 busy", retry_after=3600)])
    before = client.ask("task-show", project="news", taskid="a")

    restart(it)

    after = client.ask("task-show", project="news", taskid="a")
    assert after == before | {"n": after["n"]}
    assert (after["state"], after["error"], after["schedule"]) == ("delayed", "503 busy", schedule)
    assert after["body"] == task["body"]


def test_the_order_is_what_it_was(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(head_tasks=16)
    client, fetcher = peer(it), peer(it)
    priorities = [random.Random(n).randrange(5) for n in range(300)]
    tasks = [new_tasks(f"task{n}", priority=priority)[0] for n, priority in enumerate(priorities)]
    client.ask("new-task", project="news", tasks=tasks[:150])
    restart(it)
    client.ask("new-task", project="news", tasks=tasks[150:])
    restart(it)

    fetcher.ask("hello", capacity=300)
    handed: list[str] = []
    while len(handed) < 300:
        handed += [task["taskid"] for task in fetcher.receive()["tasks"]]

    assert handed == [f"task{n}" for n in sorted(range(300), key=lambda n: (-priorities[n], n))]


@pytest.mark.parametrize(("action", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_a_halted_project_stays_halted(daemon: DaemonFactory, peer: PeerFactory, action: str, state: str) -> None:
    it = daemon()
    client, fetcher = peer(it), peer(it)
    client.push("news", "a")
    client.push("other", "b")
    client.ask("project-do", project="news", action=action)

    restart(it)
    fetcher.ask("hello", capacity=10)

    assert [task["taskid"] for task in fetcher.receive()["tasks"]] == ["b"]
    assert client.ask("project-show", project="news")["project"]["state"] == state


def test_a_deleted_project_stays_deleted(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    client = peer(it)
    client.push("news", "a")
    client.ask("project-do", project="news", action="delete")

    restart(it)

    assert client.ask("status")["projects"] == []
    assert client.push("news", "a") == ["new"]


def test_what_project_set_said_is_kept(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(projects={"news": {"rate": 5}})
    client = peer(it)
    client.ask("project-set", project="news", settings={"rate": 0.5, "retry_delay": [1.0, 2.0]})

    restart(it)

    view = client.ask("project-show", project="news")["project"]
    assert view["overrides"] == {"rate": 0.5, "retry_delay": [1.0, 2.0]}
    assert view["settings"]["rate"] == 0.5


def test_a_lease_goes_on_and_ends_for_a_fetcher_that_never_comes_back(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(fetcher_timeout=1)
    client, gone = peer(it), peer(it)
    client.push("news", "a")
    gone.ask("hello", capacity=1)
    (held,) = gone.receive()["tasks"]
    killed_at = boot_seconds()
    restart(it)
    other = peer(it)
    other.ask("hello", capacity=1)
    while not other.has_message(HELLO_MS):
        other.ask("hello", capacity=1)

    (handed,) = other.receive()["tasks"]

    assert boot_seconds() >= killed_at + 1
    assert handed["taskid"] == "a"
    assert handed["token"] != held["token"]
    assert totals(client) == {"new": 1, "selected": 2}


# ---------------------------------------------------------------------------------------- bucket


def test_the_bucket_goes_on_after_a_kill(daemon: DaemonFactory, peer: PeerFactory) -> None:
    rate, burst = 0.001, 50
    it = daemon(projects={"news": {"rate": rate, "burst": burst}})
    client, fetcher = peer(it), peer(it)
    client.push("news", *(f"task{n}" for n in range(10)))
    began = boot_seconds()
    fetcher.ask("hello", capacity=100)
    assert len(fetcher.receive()["tasks"]) == 10

    for _ in range(2):
        restart(it)
        tokens = client.ask("project-show", project="news")["project"]["tokens"]

        assert burst - 10 <= tokens <= burst - 10 + rate * (boot_seconds() - began) + ROUNDING


def test_no_window_has_more_hand_outs_than_the_rate_law_allows_restarts_included(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    rate, burst, count = 10.0, 50, 75
    it = daemon(durability="none", projects={"news": {"rate": rate, "burst": burst}})
    peer(it).push("news", *(f"task{n}" for n in range(count)))
    fetcher = peer(it)
    sent_at, received_at = [boot_seconds()], []

    fetcher.ask("hello", capacity=1)
    for n in range(1, count + 1):
        (task,) = fetcher.receive()["tasks"]
        received_at.append(boot_seconds())
        if n in (burst, burst + 10):
            restart(it)
            fetcher.ask("hello", capacity=1, seen=n, holds=[task["token"]])
        sent_at.append(boot_seconds())
        fetcher.ask("done", tasks=[finished(task)])

    # sent_at[j] is just before dispatch j + 1 could happen, received_at[i] just after dispatch i + 1 did.
    windows = combinations(range(count + 1), 2)
    excess = [(i, j) for j, i in windows if i - j > burst + rate * (received_at[i - 1] - sent_at[j]) + ROUNDING]
    assert excess == []


# ---------------------------------------------------------------------------------------- how it was


def test_how_the_daemon_was_by_the_minute_is_told_by_the_one_after_it(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    peer(it).push("news", "a", "b")
    it.stop()
    it.start()

    points = peer(it).ask("daemon-history")["points"]

    assert sum(point.get("new", 0) for point in points) == 2
    assert points[-1]["ready"] == 2
    assert all(point["resident_bytes"] > 1 << 20 for point in points)
    assert all(point["turn_most_seconds"] > 0 for point in points)
