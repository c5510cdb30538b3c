"""Flows with real processes: submitted in Python and by command, run, waited for, cancelled, cut short."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskqueue import Client, FlowTask, RequestRejected, Task
from taskqueue.cli.main import main
from tests.integration.conftest import Daemon, Peer, PeerFactory
from tests.integration.nursery import WAIT_SECONDS, run_forked

ROOT = Path(__file__).parents[2]
PARENTS = {"A": "", "B": "", "C": "", "D": "AB", "E": "BC", "F": "AD", "G": "DE", "H": "DE", "I": "CE"}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def it(daemon: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch) -> Daemon:
    running = daemon()
    monkeypatch.setenv("TASKQUEUE_DAEMON", running.url)
    return running


@pytest.fixture
def client(it: Daemon) -> Iterator[Client]:
    with Client(it.url) as made:
        made.projects.start("shop")
        yield made


@pytest.fixture
def run(it: Daemon, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main([*(["task"] if arguments[0] == "rerun" else ["flow"]), *arguments])
        return status, *capsys.readouterr()

    return run


def submit_example(client: Client, name: str, *, reuse: bool = False) -> None:
    flow = client.flow("shop", name)
    tasks: dict[str, FlowTask] = {}
    for each, parents in PARENTS.items():
        tasks[each] = flow.task(f"data:,{each}", after=[tasks[parent] for parent in parents], taskid=each)
    flow.submit(reuse=reuse)


def run_all(client: Client, most: int, name: str = "nightly") -> list[str]:
    """Run tasks as they are dispatched, ``most`` at once, until the flow has ended; return their taskids in order."""
    ran: list[str] = []
    while not client.flows.get("shop", name).ended_at:
        for task in client.select(most, timeout=0.2):
            client.done(task)
            ran.append(task.taskid)
    return ran


def run_in_messages(fetcher: Peer, number: int) -> Counter[str]:
    """Run ``number`` tasks, a message at a time; return how often each ran."""
    fetcher.ask("hello", capacity=4000)
    ran: Counter[str] = Counter()
    while ran.total() < number:
        message = fetcher.receive()
        if message["type"] == "select":
            tasks = message["tasks"]
            ran.update(task["taskid"] for task in tasks)
            reports = [{name: task[name] for name in ("project", "taskid", "token")} for task in tasks]
            fetcher.send("done", tasks=reports)
    return ran


def take(client: Client, number: int) -> list[Task]:
    """Take ``number`` tasks, holding all of them at once."""
    held: list[Task] = []
    while len(held) < number:
        held += client.select(number - len(held), timeout=WAIT_SECONDS)
    return held


def in_order(ran: list[str]) -> bool:
    return all(ran.index(parent) < ran.index(each) for each, parents in PARENTS.items() for parent in parents)


def test_a_flow_runs_each_task_once_after_its_parents(client: Client) -> None:
    submit_example(client, "nightly")

    ran = run_all(client, 4)

    assert sorted(ran) == sorted(PARENTS)
    assert in_order(ran)
    ended = client.flows.wait("shop", "nightly", timeout=WAIT_SECONDS)
    assert (ended.state, ended.counts.success) == ("success", 9)
    assert [(task.taskid, task.state) for task in client.flows.iter_tasks("shop", "nightly")] == [
        (name, "success") for name in PARENTS
    ]


def test_as_much_runs_at_once_as_the_graph_allows(client: Client) -> None:
    submit_example(client, "nightly")

    layers = []
    for number in (3, 2, 4):
        held = take(client, number)
        layers.append("".join(sorted(task.taskid for task in held)))
        for task in held:
            client.done(task)

    assert layers == ["ABC", "DE", "FGHI"]
    assert client.flows.wait("shop", "nightly", timeout=WAIT_SECONDS).state == "success"


def test_a_task_runs_again_with_all_that_depends_on_it_and_nothing_else(client: Client, run: Run) -> None:
    submit_example(client, "nightly")
    run_all(client, 4)

    layers = run("rerun", "shop", "A", "--downstream", "--dry-run")[1].splitlines()
    assert [" ".join(line.split()[2:]) for line in layers[:3]] == ["A", "D", "F, G, H"]
    status, told, _ = run("rerun", "shop", "A", "--downstream")
    assert (status, told.startswith("5 tasks run again")) == (0, True)
    ran = run_all(client, 4)

    assert sorted(ran) == list("ADFGH")
    assert ran[:2] == ["A", "D"]
    assert client.flows.wait("shop", "nightly", timeout=WAIT_SECONDS).state == "success"


def test_the_example_runs_its_graph(it: Daemon, client: Client) -> None:
    client.projects.start("demo")

    command = [sys.executable, ROOT / "examples" / "flow.py"]
    done = run_forked(command, env={**os.environ, "TASKQUEUE_DAEMON": it.url}, check=True)

    first, again = done.stdout.splitlines()
    name, _, told = first.partition(": success, ")
    assert name.startswith("flow-")
    assert sorted(told.split()) == sorted(PARENTS)
    assert in_order(told.split())
    ran = again.removeprefix("again: success, ").split()
    assert (ran[:2], sorted(ran[2:])) == (["A", "D"], ["F", "G", "H"])


def test_a_file_is_submitted_shown_run_and_waited_for(client: Client, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    tables = [f"[tasks.{each}]\nurl = 'data:,{each}'\nafter = {list(its)}" for each, its in reversed(PARENTS.items())]
    file.write_text("flow = 'nightly'\n" + "\n".join(tables))

    assert run("submit", "shop", str(file)) == (0, "shop/nightly: 9 tasks accepted\n", "")
    assert run("wait", "shop", "nightly", "--timeout", "0")[0] == 1
    assert in_order(run_all(client, 3))

    assert run("wait", "shop", "nightly") == (0, "", "")
    shown = run("show", "shop", "nightly")[1].splitlines()
    assert shown[0].startswith("shop/nightly  success  9 of 9 tasks finished")
    assert shown[2].strip() == "9 success"
    assert "critical path" in "".join(shown)
    assert run("list")[1].splitlines()[1].split()[:3] == ["shop", "nightly", "success"]


def test_a_known_task_refuses_a_flow_unless_it_is_to_be_reused(client: Client) -> None:
    client.push("shop", "data:,A", taskid="A")
    client.done(client.select(1)[0])

    with pytest.raises(RequestRejected, match="A"):
        submit_example(client, "nightly")
    submit_example(client, "again", reuse=True)

    ran = run_all(client, 2, "again")
    assert sorted(ran) == sorted(set(PARENTS) - {"A"})
    assert client.flows.get("shop", "again").state == "success"


def test_a_flow_with_a_task_that_fails_has_failed(client: Client, run: Run) -> None:
    submit_example(client, "nightly")

    for task in take(client, 3):
        if task.taskid == "A":
            client.failed(task, "broken", retry=False)
        else:
            client.done(task)
    ran = run_all(client, 3)

    assert sorted(ran) == ["E", "I"]
    status, _, err = run("wait", "shop", "nightly", "--timeout", "60s")
    assert (status, "9 of 9 tasks finished (5 failed)" in err) == (3, True)


def test_a_flow_that_is_cancelled_ends(client: Client, run: Run) -> None:
    submit_example(client, "nightly")
    client.done(client.select(1)[0])

    assert run("cancel", "shop", "nightly")[0] == 0

    status, _, err = run("wait", "shop", "nightly", "--timeout", "60s")
    assert status == 4
    assert "9 of 9 tasks finished" in err
    assert client.select(1, timeout=0) == []


def test_a_daemon_that_is_killed_again_and_again_while_a_flow_is_made_makes_each_task_once(
    it: Daemon, client: Client, peer: PeerFactory
) -> None:
    tasks, kills = 20_000, 0
    flow = client.flow("shop", "large")
    last: FlowTask | None = None
    for n in range(tasks):
        task = flow.task(f"data:,{n}", after=[last] if last is not None and n % 10 else [], taskid=str(n))
        last = task
    unrolled = [flow.submit().unrolled]

    while unrolled[-1] < tasks and kills < 5:
        it.kill()
        it.start()
        kills += 1
        unrolled.append(client.flows.get("shop", "large").unrolled)
    ran = run_in_messages(peer(it), tasks)

    assert kills, "the flow was made before the daemon could be killed"
    assert unrolled == sorted(unrolled)
    assert len(ran) == tasks
    assert max(ran.values()) == 1
    ended = client.flows.wait("shop", "large", timeout=WAIT_SECONDS)
    assert (ended.state, ended.counts.success) == ("success", tasks)
    assert it.stop() == 0
    assert main(["store", "check", str(it.store_path)]) == 0


def test_a_large_flow_outlives_a_daemon_that_is_killed_while_it_is_made(
    it: Daemon, client: Client, peer: PeerFactory
) -> None:
    layers, width = 4, 600
    flow = client.flow("shop", "large")
    above: list[FlowTask] = []
    for layer in range(layers):
        after = [above[place : place + 3] for place in range(width)] if above else [[]] * width
        above = [flow.task(f"data:,{layer}-{n}", after=after[n], taskid=f"{layer}-{n}") for n in range(width)]
    flow.submit()

    it.kill()
    it.start()
    ran = run_in_messages(peer(it), layers * width)

    assert client.flows.wait("shop", "large", timeout=WAIT_SECONDS).state == "success"
    assert len(ran) == layers * width
    assert max(ran.values()) == 1
