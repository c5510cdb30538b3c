"""A key for ``news-*`` beside a thousand projects of others: what commands and the client show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

import pytest

from taskqueue import Client, RequestRejected
from taskqueue.access.key_file import write_new_key
from tests.integration.conftest import Daemon, DaemonFactory, authorised
from tests.integration.test_keys import run

OWN: Final = ["news-a", "news-b", "news-c"]
OTHERS: Final = [f"shop-{number:03}" for number in range(1000)]


@pytest.fixture
def it(daemon: DaemonFactory, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with tasks, a fetcher, an operation and log entries of others and of the key's projects."""
    it = daemon(start=False, projects={name: {} for name in [*OTHERS, *OWN]})
    it.configure(keys=str(tmp_path / "access.json"))
    write_new_key(tmp_path / "web1.key", authorised(tmp_path, "web1", "admin", "news-*"))
    write_new_key(tmp_path / "anna.key", authorised(tmp_path, "anna"))
    it.start()
    with Client(it.url, key=tmp_path / "anna.key") as client:
        for name in ("shop-000", "shop-001", "news-a"):
            client.push(name, f"http://{name}/")
            client.projects.pause(name)
        client.projects.resume("shop-000")
        (task,) = client.select(projects=["shop-000"])
        client.failed(task, error="ShopError", retry=False)
        client.operations.start("retry", project="shop-001")
        yield it


def command(it: Daemon, folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Run a command with the key for ``news-*``."""
    return run(it, *arguments, "--key", "web1.key", cwd=folder)


def test_commands_by_a_key_show_its_projects_only(it: Daemon, tmp_path: Path) -> None:
    shown = {
        words: command(it, tmp_path, *words.split())
        for words in (
            "status", "status --json", "project list", "log", "log --json", "stats", "failures", "fetcher list",
            "operation list", "flow list", "why",
        )
    }  # fmt: skip

    for words, told in shown.items():
        assert (told.returncode, "shop" in (told.stdout + told.stderr).lower()) == (0, False), (words, told)
    status = json.loads(shown["status --json"].stdout)
    assert [each["name"] for each in status["projects"]] == OWN
    assert (status["counts"]["ready"], status["counts"]["failed"], status["totals"]["new"]) == (1, 0, 1)
    assert status["shell"] == {}
    assert all(name in shown["status"].stdout and name in shown["stats"].stdout for name in OWN)
    assert "project pause" in shown["log"].stdout


def test_requests_about_the_daemon_are_refused_to_it_with_the_reason(it: Daemon, tmp_path: Path) -> None:
    told = command(it, tmp_path, "daemon", "show")

    assert told.returncode != 0
    assert 'daemon-show is about all projects, and web1 reaches news-*; use a key for "*"' in told.stderr


def test_a_command_for_other_projects_ends_with_77_and_status_asks_only_what_the_key_may(
    it: Daemon, tmp_path: Path
) -> None:
    refused = [
        "project pause shop-000", "project resume shop-000", "project stop shop-000", "project start shop-000",
        "project delete --yes shop-000", "project stop shop-000 shop-001", "push shop-000 http://a/ http://b/",
        "push news-a -f outside",
    ]  # fmt: skip
    outside = '{"url": "http://d/", "depends_on": [["shop-000", "x"]]}\n'
    (tmp_path / "outside").write_text(2 * outside)
    (tmp_path / "mixed").write_text(f"http://c/\n{outside}")

    def count() -> float:
        with Client(it.url, key=tmp_path / "anna.key") as client:
            return next(use.forbidden for use in client.daemon.key_uses() if use.name == "web1")

    assert command(it, tmp_path, "status").returncode == 0
    assert count() == 0
    ended = {words: command(it, tmp_path, *words.split()) for words in refused}
    assert {words: told.returncode for words, told in ended.items()} == dict.fromkeys(refused, 77), ended
    assert "taskqueue key set web1 --projects" in ended["push shop-000 http://a/ http://b/"].stderr
    assert command(it, tmp_path, "project", "stop", "news-b", "shop-000").returncode == 1
    assert command(it, tmp_path, "push", "news-a", "-f", "mixed").returncode == 1
    assert count() >= len(refused)


def test_a_key_imports_into_its_projects_only(it: Daemon, tmp_path: Path) -> None:
    first, last = '{"taskqueue": 6, "projects": [{"name": "shop-000"}]}\n', '{"tasks": 1}\n'
    task = {"project": "shop-000", "taskid": "a", "state": "blocked", "url": "http://a/"}
    (tmp_path / "good").write_text(f"{first}{json.dumps(task)}\n{last}")
    (tmp_path / "bad").write_text(f"{first}{json.dumps(task | {'parents': [['x', 0, 'shop-001']]})}\n{last}")

    told = [
        command(it, tmp_path, "project", "import", *words.split())
        for words in ("shop-new good", "news-new bad", "news-other good")
    ]

    assert [each.returncode for each in told] == [77, 77, 0], told
    assert 'project "shop-new" is outside' in told[0].stderr
    assert 'bad: line 2: parents: web1 reaches news-*, and project "shop-001" is outside' in told[1].stderr
    assert (
        command(it, tmp_path, "project", "show", "news-new").stdout.count("0 of 1 parts of its import are there") == 1
    )


def test_a_watcher_hears_of_its_projects_only(it: Daemon, tmp_path: Path) -> None:
    with Client(it.url, key=tmp_path / "web1.key") as mine, Client(it.url, key=tmp_path / "anna.key") as all_:
        watching = mine.projects.watch()
        first = next(watching)
        all_.projects.delete("shop-002")
        all_.push("shop-003", "http://shop-003/")
        all_.push("news-b", "http://news-b/")
        changed = next(watching)

    assert (sorted(each.name for each in first.projects), first.found, first.more) == (OWN, 3, False)
    assert ([each.name for each in changed.projects], changed.gone, changed.counts.ready) == (["news-b"], [], 2)


def test_graphs_of_cron_entries_of_others_can_neither_be_set_nor_seen(it: Daemon, tmp_path: Path) -> None:
    tasks = {"load": {}, "sum": {"after": ["load"]}}
    with Client(it.url, key=tmp_path / "web1.key") as mine, Client(it.url, key=tmp_path / "anna.key") as all_:
        with pytest.raises(RequestRejected) as refused:
            mine.cron.set("shop-001", "night", every="1s", tasks=tasks)
        all_.cron.set("shop-001", "night", every="1s", tasks=tasks)
        mine.cron.set("news-a", "night", every="1s", tasks=tasks)
        while {view.project for view in all_.flows.iter()} < {"shop-001", "news-a"}:
            all_.projects.get("shop-001")

        assert {view.project for view in mine.flows.iter()} == {"news-a"}
        with pytest.raises(RequestRejected):
            mine.flows.get("shop-001", all_.flows.list("shop-001").items[0].flow)
        with pytest.raises(RequestRejected):
            mine.cron.list("shop-001")
    assert refused.value.code == "forbidden"


def test_things_of_others_are_unknown(it: Daemon, tmp_path: Path) -> None:
    with Client(it.url, key=tmp_path / "anna.key") as client:
        (operation,) = client.operations.list()
    with Client(it.url, key=tmp_path / "web1.key") as client:
        assert client.operations.list() == []
        with pytest.raises(RequestRejected, match="there is no operation") as refused:
            client.operations.get(operation.id)

    assert refused.value.code == "unknown-operation"
