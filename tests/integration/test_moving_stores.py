"""A crawl is moved between a folder and a database, both ways, without any change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from taskqueue import Client
from taskqueue.cli.main import main
from tests.postgres import drop_schema, new_target, postgres_url

if TYPE_CHECKING:
    from pathlib import Path

    from taskqueue.store.postgres.session import Target
    from tests.integration.conftest import Daemon, DaemonFactory, Message, Peer, PeerFactory

Run = Callable[..., str]

EACH: Final = 500
"""Tasks of each kind."""

STATES: Final = {"ready", "delayed", "processing", "success", "failed", "cancelled", "blocked"}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``taskqueue store``, which must succeed; return its stdout."""

    def run(*arguments: object) -> str:
        status = main(["store", *map(str, arguments)])
        shown, said = capsys.readouterr()
        assert status == 0, (shown, said)
        return str(shown)

    return run


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Config files that name an empty schema each."""
    targets: list[Target] = []

    def make() -> Path:
        targets.append(new_target())
        file = tmp_path / f"{targets[-1].schema}.toml"
        file.write_text(f"[store]\nurl = {json.dumps(postgres_url())}\nschema = {json.dumps(targets[-1].schema)}\n")
        return file

    yield make
    for target in targets:
        drop_schema(target)


def names(kind: str) -> list[str]:
    return [f"{kind}{number}" for number in range(EACH)]


def push(client: Peer, project: str, taskids: list[str], **fields: Any) -> None:
    tasks = [
        {"taskid": each, "url": f"http://site{each[-1]}/{each}", "body": {"of": each}} | fields for each in taskids
    ]
    assert set(client.ask("new-task", project=project, tasks=tasks)["outcomes"]) == {"new"}


def take(fetcher: Peer, project: str, number: int) -> list[Message]:
    """Take ``number`` tasks of a project at once; afterwards the fetcher wants no more."""
    held: list[Message] = []
    fetcher.ask("hello", capacity=number, projects=[project])
    while len(held) < number:
        held += fetcher.receive()["tasks"]
    return held


def report(fetcher: Peer, tasks: list[Message], **fields: Any) -> None:
    said = [{name: task[name] for name in ("project", "taskid", "token")} | fields for task in tasks]
    assert set(fetcher.ask("done", tasks=said)["outcomes"]) == {"done"}


def crawl(it: Daemon, peer: PeerFactory) -> None:
    """Push tasks in all states, with results, edges, a flow, slots and histories."""
    client, fetcher = peer(it), peer(it)
    push(client, "news", names("parent"))
    held = take(fetcher, "news", EACH)
    report(fetcher, held[::2], result={"found": [1, "é"]})
    report(fetcher, held[1::2])
    push(client, "shop", names("failing"), schedule={"retries": 0})
    report(fetcher, take(fetcher, "shop", EACH), ok=False, error="503")
    push(client, "news", names("held"))
    take(peer(it), "news", EACH // 2)
    client.push("news", "held0", "held1", priority=7, force_update=True)
    push(client, "news", names("later"), schedule={"delay": 1e6})
    push(client, "news", names("cancelled"), schedule={"delay": 1e6})
    client.ask("task-cancel", project="news", taskids=names("cancelled"))
    push(client, "shop", names("child"), depends_on=[["news", "held0"], ["news", "parent0"], ["news", "later1"]])
    push(client, "shop", names("orphan"), depends_on=["never-pushed"], on_parent_failure="wait")
    client.ask("project-set", project="sites", settings={"slot": {"by": "host", "delay": 1.0}})
    push(client, "sites", names("page"))
    with Client(it.url) as flows:
        flow = flows.flow("shop", "nightly")
        first = flow.task("http://a/first", taskid="first")
        flow.task("http://a/second", taskid="second", after=[first])
        flow.submit()


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_crawl_is_the_same_after_it_was_moved_to_a_database_to_a_folder_and_to_a_database_again(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, databases: Callable[[], Path], tmp_path: Path
) -> None:
    it = daemon(url="")
    crawl(it, peer)
    it.stop()
    first, second, folder = databases(), databases(), tmp_path / "folder"
    original, moved, back, again = (tmp_path / f"{name}.jsonl" for name in ("original", "moved", "back", "again"))

    run("export", "-c", it.config_file, "-o", original)
    run("import", original, "-c", first)
    run("export", "-c", first, "-o", moved)
    run("import", moved, "--store", folder)
    run("export", "--store", folder, "-o", back)
    run("export", "--store", folder, "-o", tmp_path / "back.msgpack")
    run("import", tmp_path / "back.msgpack", "-c", second)
    run("export", "-c", second, "-o", again)

    assert {line["state"] for line in lines(original) if "taskid" in line} == STATES
    assert len(lines(original)) > 8 * EACH
    assert back.read_bytes() == moved.read_bytes()
    assert again.read_bytes() == moved.read_bytes()
    for place in (["-c", first], ["-c", second], [folder]):
        assert "all agree" in run("check", *place)


def test_an_import_makes_the_same_of_an_export_in_a_folder_and_in_a_database(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, databases: Callable[[], Path], tmp_path: Path
) -> None:
    it = daemon(url="")
    crawl(it, peer)
    it.stop()
    run("export", "-c", it.config_file, "-o", tmp_path / "original")
    database = databases()

    run("import", tmp_path / "original", "-c", database)
    run("import", tmp_path / "original", "--store", tmp_path / "folder")

    run("export", "-c", database, "-o", tmp_path / "of-database")
    run("export", "--store", tmp_path / "folder", "-o", tmp_path / "of-folder")
    assert (tmp_path / "of-database").read_bytes() == (tmp_path / "of-folder").read_bytes()


def test_a_daemon_goes_on_in_the_database_with_what_it_did_in_a_folder(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, databases: Callable[[], Path], tmp_path: Path
) -> None:
    before = daemon(url="")
    crawl(before, peer)
    counts = states(peer(before))
    before.stop()
    target = new_target()
    after = daemon(url=postgres_url(), schema=target.schema, start=False)
    after.configure()
    run("export", "-c", before.config_file, "-o", tmp_path / "crawl.msgpack")
    run("import", tmp_path / "crawl.msgpack", "-c", after.config_file)

    after.start()

    counts["ready"] += counts.pop("processing")
    assert states(peer(after)) == counts
    assert peer(after).push("news", "parent1", "parent2") == ["ignored", "ignored"]
    assert peer(after).ask("verify")["problems"] == []
    drop_schema(target)


def states(client: Peer) -> Counter[str]:
    """Count tasks of all projects by state."""
    found: Counter[str] = Counter()
    for name in ("news", "shop", "sites"):
        found.update(client.ask("project-show", project=name)["project"]["counts"])
    return +found
