"""Single damaged rows in the database of a stopped daemon: which tool notices each, and how other projects suffer.

    .venv/bin/python -m tests.chaos.row_damages             each family, three damages each; 1 if a bound does not hold
    .venv/bin/python -m tests.chaos.row_damages ready ids   of these families
    .venv/bin/python -m tests.chaos.row_damages --write     and put the table into docs/why/results.md

A crawl with rows in every family is made once, and copied for each damage. Then: ``store check``; a start of the
daemon, which is asked for everything of the damaged project, and runs a task of another; ``store repair``;
``store check`` again.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psycopg

from taskqueue import Client
from taskqueue.cli.main import main as taskqueue
from taskqueue.errors import ClientError
from taskqueue.store.records.layout import FAMILIES
from tests.integration.conftest import ROOT, Daemon, Peer
from tests.postgres import QUICK, Cluster

DOCUMENT: Final = ROOT / "docs" / "why" / "results.md"
TABLE: Final = re.compile(r"(?<=<!-- table: row damages -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD: Final = ("| a row of | cut | a byte flipped | deleted | repaired |", "|---|---|---|---|---|")

DAMAGES: Final = {
    "cut": "update {table} set value = substring(value from 1 for octet_length(value) / 2), "
    "crc = case when value = '' then crc # 1 else crc end where key = %s",
    "flipped": "update {table} set value = case when value = '' then '\\x01' else "
    "set_byte(value, octet_length(value) / 2, get_byte(value, octet_length(value) / 2) # 1) end where key = %s",
    "deleted": "delete from {table} where key = %s",
}
OTHERS: Final = {
    "schedulers": ("update taskqueue.schedulers set owner = null", "update taskqueue.schedulers set epoch = epoch # 64",
                   "delete from taskqueue.schedulers"),
    "barriers": ("", "", "delete from taskqueue.barriers"),
}  # fmt: skip
"""Rows outside of families, and damages done to them: cut, flipped, deleted; empty if that is impossible."""

ANSWER_SECONDS: Final = 10

META_KEYS: Final = ("format", "epoch", "next_project", "next_log", "next_flow", "secret", "clean", "boot", "drained")


class Outcome(NamedTuple):
    """Result of one damage.

    Attributes:
        is_noticed: True if ``store check`` noticed it.
        said: reaction of the daemon: "set aside", "rejected", "exit 5", …; empty if none.
        harm: effect on another project; empty if none.
        is_mended: True if ``store check`` finds nothing after ``store repair``.
    """

    is_noticed: bool
    said: str
    harm: str
    is_mended: bool


class Scene:
    """Server with a crawl to be copied."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._copies = 0
        cluster.run("create database crawl")
        fill(self.daemon("crawl"))

    def url(self, database: str) -> str:
        return self._cluster.url.replace("/postgres?", f"/{database}?")

    def daemon(self, database: str) -> Daemon:
        folder = self._folder / database
        folder.mkdir()
        return Daemon(
            folder, url=self.url(database), schema="taskqueue", defaults={"max_depth": 5},
            projects={"leased": {"bucket": "shared"}}, buckets={"shared": {"rate": 1, "burst": 5}},
        )  # fmt: skip

    def copy(self) -> str:
        """Copy the crawl into another database; return its url."""
        self._copies += 1
        name = f"copy{self._copies}"
        self._cluster.run(f"create database {name} template crawl")
        return name

    def drop(self, database: str) -> None:
        self._cluster.run(f"drop database {database} (force)")

    def row(self, family: str) -> bytes | None:
        """Return the first key of a family."""
        with psycopg.connect(self.url("crawl"), autocommit=True) as connection:
            found = connection.execute(f"select key from taskqueue.kv_{family} order by key limit 1").fetchone()
        return None if found is None else bytes(found[0])

    def hurt(self, database: str, table: str, damage: str, key: bytes | None) -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            sql = (
                OTHERS[table][list(DAMAGES).index(damage)]
                if key is None
                else DAMAGES[damage].format(table=f"taskqueue.kv_{table}")
            )
            connection.execute(sql.encode(), None if key is None else [key])


def fill(it: Daemon) -> None:
    """Make a crawl that has an entry in each family, except families of short-lived entries."""
    it.start()
    with closing(Peer(it.url)) as fetcher, closing(Peer(it.url)) as producer, Client(it.url) as client:
        client.push("hurt", "http://site/done")
        client.push("hurt", "http://site/bad", retries=0)
        work(fetcher, "hurt", result=1)
        fetcher.ask("hello", capacity=0)
        for name in ("waits", "waits2"):
            producer.push("hurt", name)
        producer.push("hurt", "later", delay=100_000)
        client.push("hurt", "http://site/child", depends_on=["waits"])
        producer.push("leased", "leased")
        hold(fetcher, producer)
        client.projects.set("slotted", {"slot": {"by": "host", "rate": 0.001}})
        for number in range(3):
            client.push("slotted", f"http://site{number}/")
        flow = client.flow("flown", "graph")
        flow.task("http://site/b", after=[flow.task("http://site/a")])
        flow.submit()
        client.fetchers.drain("away")
        client.operations.start("cancel", project="hurt", url="none", dry_run=True)
        client.tasks.cancel("hurt", ["waits2"])
        client.push("sound", "http://sound/1")
        client.projects.get("sound")
    assert it.stop() == 0


def work(fetcher: Peer, project: str, *, result: int | None = None) -> None:
    """Run two tasks of a project: one succeeds with a result, the other fails for good."""
    fetcher.ask("hello", capacity=2, projects=[project])
    left = 2
    while left:
        for task in fetcher.receive()["tasks"]:
            done = {name: task[name] for name in ("project", "taskid", "token")}
            is_well = not task["url"].endswith("bad")
            said = {"ok": True, "result": result} if is_well else {"ok": False, "error": "no", "retry": False}
            fetcher.ask("done", tasks=[done | said])
            left -= 1


def hold(fetcher: Peer, producer: Peer) -> None:
    """Let a fetcher hold a task whose update is deferred."""
    fetcher.ask("hello", capacity=1, projects=["leased"])
    while not fetcher.receive()["tasks"]:
        pass
    producer.push("leased", "leased", force_update=True)


def play(scene: Scene, table: str, damage: str, key: bytes | None) -> Outcome:
    """Damage a row of a copy; return the outcome."""
    database = scene.copy()
    url = scene.url(database)
    scene.hurt(database, table, damage, key)
    is_noticed = store("check", url)[0] != 0
    said, harm = start(scene.daemon(database))
    store("repair", url)
    is_mended = store("check", url)[0] == 0
    scene.drop(database)
    return Outcome(is_noticed, said, harm, is_mended)


def store(*arguments: str) -> tuple[int, str]:
    """Run ``taskqueue store``."""
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        status = taskqueue(["store", *arguments])
    return status, shown.getvalue()


def start(it: Daemon) -> tuple[str, str]:
    """Start a daemon, ask for everything, and run a task of an undamaged project; return its reaction, and the harm."""
    it.launch()
    try:
        it.serving()
    except AssertionError:
        return f"exit {it.ended()}", "all stand still"
    harm, refused = "", []
    with Client(it.url, timeout=ANSWER_SECONDS) as client:
        for ask in questions(client):
            if it.process is None or it.process.poll() is not None:
                break
            try:
                ask()
            except ClientError as error:
                refused += ["push rejected"] * ("can't be read" in str(error))
        else:
            harm = sound(client)
            refused += ["verify"] * bool(client.daemon.verify())
    status = it.stop() if it.process is not None and it.process.poll() is None else it.ended()
    if status:
        return f"exit {status}", "all stand still"
    said = ["set aside"] * ("damaged family" in it.log()) + list(dict.fromkeys(refused))
    return ", ".join(said), harm


def sound(client: Client) -> str:
    """Run a task of an undamaged project, and push another one; return what went wrong."""
    try:
        [task] = client.select(1, projects=["sound"])
        client.done(task)
        client.push("sound", "http://sound/2")
        counts = client.projects.get("sound").counts
    except (ClientError, ValueError) as error:
        return str(error)
    return "" if (counts.success, counts.ready) == (1, 1) else f"its counts are {counts}"


def questions(client: Client) -> Iterator[Callable[[], object]]:
    """Yield all requests about damaged projects; their tasks are pushed anew, too."""
    for project in ("hurt", "leased", "slotted", "flown"):
        for state in ("ready", "delayed", "processing", "success", "failed", "cancelled", "blocked"):
            yield partial(client.tasks.list, project, state)
        for taskid in ("waits", "later", "leased"):
            yield partial(client.tasks.get, project, taskid)
        for url in ("http://site/done", "http://site/bad", "http://site/child", "http://site/a", "http://site0/"):
            yield partial(client.tasks.get, project, url=url)
            yield partial(client.push, project, url, force_update=True)
        yield partial(client.failures, project)
        yield partial(client.log.list, project)
        yield lambda: list(client.flows.iter(project))  # noqa: B023
        yield lambda: list(client.flows.iter_tasks(project, "graph"))  # noqa: B023
        yield partial(client.slots.list, project)
    yield client.operations.list
    yield client.status


def cell(damage: str, outcome: Outcome | None) -> str:
    """Format a cell of the table."""
    if outcome is None:
        return "–"
    check = "check" if outcome.is_noticed else "**not** by check"
    return f"{check}; daemon: {outcome.said or ('no trace' if damage == 'deleted' else 'not read')}"


def main() -> int:
    """Play the requested damages; return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.row_damages")
    parser.add_argument("families", nargs="*", help="families to damage; default: all")
    parser.add_argument("--write", action="store_true", help="write the table into docs/why/results.md")
    told = parser.parse_args()
    print("\n".join(HEAD), flush=True)
    rows, harms = [], []
    with _server() as cluster, TemporaryDirectory(prefix="row-damages-") as folder:
        scene = Scene(cluster, Path(folder))
        for name, table, key in places(scene):
            if told.families and table not in told.families:
                continue
            outcomes = [
                play(scene, table, damage, key) if key is not None or OTHERS[table][index] else None
                for index, damage in enumerate(DAMAGES)
            ]
            met = [outcome for outcome in outcomes if outcome is not None]
            mended = f"{sum(outcome.is_mended for outcome in met)} of {len(met)}"
            rows.append(f"| {name} | {' | '.join(map(cell, DAMAGES, outcomes))} | {mended} |")
            harms += [
                f"{name}: {outcome.harm}" for outcome in met if outcome.harm and not outcome.said.startswith("exit 5")
            ]
            print(rows[-1], flush=True)
    print(*harms, sep="\n")
    if told.write:
        DOCUMENT.write_text(
            TABLE.sub(lambda _: "".join(f"{line}\n" for line in (*HEAD, *rows)), DOCUMENT.read_text(), count=1)
        )
    return 1 if harms else 0


@contextmanager
def _server() -> Iterator[Cluster]:
    cluster = Cluster(*QUICK)
    try:
        yield cluster
    finally:
        cluster.stop()


def places(scene: Scene) -> list[tuple[str, str, bytes | None]]:
    """List name, table and key of each row to damage; no key for rows outside of families."""
    found: list[tuple[str, str, bytes | None]] = [(f"meta, `{key}`", "meta", key.encode()) for key in META_KEYS]
    keys = {family: scene.row(family) for family in FAMILIES if family != "meta"}
    found += [(family, family, key) for family, key in keys.items() if key is not None]
    return [*found, *((f"`{table}`", table, None) for table in OTHERS)]


if __name__ == "__main__":
    sys.exit(main())
