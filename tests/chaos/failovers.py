"""Failovers beneath a real daemon, and the ledger of what was acknowledged: ``make failovers``.

    .venv/bin/python -m tests.chaos.failovers                twenty of each kind
    .venv/bin/python -m tests.chaos.failovers --rounds 3     fewer
    .venv/bin/python -m tests.chaos.failovers --write        and put the table into docs/howto/postgresql.md

    primary ──log──► standby      tasks are pushed and done; the primary is killed (-9), the standby promoted
       ▲                │         the former primary becomes the standby of the new one, and so on
       └────────────────┘

The producers and fetchers use the real client, so that pauses are those of its users. With a synchronous standby
nothing acknowledged may be lost. An asynchronous one is cut off for a moment before it takes over, so that it lacks the
last turns: the daemon must notice, report and count this loss. After each failover all that was acknowledged before
it is looked up, so that no loss stays unnoticed.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, get_args

from taskqueue import Client
from taskqueue.errors import RequestRejected
from taskqueue.protocol.choices import TaskState
from tests.chaos.crew import BY_THE_CLIENT, PROJECT, Crew, Ledger
from tests.integration.conftest import ROOT, Daemon, Peer
from tests.postgres import QUICK, Cluster

ROUNDS: Final = 20
TASKS: Final = 2000
PROBES: Final = 10
READ_AGAIN: Final = "store-read-again"
LOST: Final = "store-lost"
TIMEOUT_SECONDS: Final = 5

DOCUMENT: Final = ROOT / "docs" / "howto" / "postgresql.md"
TABLE: Final = re.compile(r"(?<=<!-- table: failovers -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD: Final = (
    "| standby | failovers | acknowledged | done | lost | dispatched twice | said | turns lost | longest pause |",
    "|---|---|---|---|---|---|---|---|---|",
)


class Played(NamedTuple):
    """Result of the failovers.

    Attributes:
        said: number of the daemon's reports of lost turns.
        turns: number of lost turns that it has counted.
        pause: longest time in seconds from a kill to the next finished task.
        problems: lines that describe problems; empty if there are none.
    """

    ledger: Ledger
    said: int
    turns: int
    pause: float
    problems: list[str]


def main() -> int:
    """Play both kinds; return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.failovers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each kind (%(default)s)")
    parser.add_argument("--tasks", type=int, default=TASKS, help="tasks in each round (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into docs/howto/postgresql.md")
    told = parser.parse_args()
    print("\n".join(HEAD), flush=True)
    rows, is_well = [], True
    for name, fail_over in KINDS.items():
        played = play(fail_over, told.seed, told.rounds, told.tasks)
        rows.append(_row(name, told.rounds, played))
        print(rows[-1], *played.problems, sep="\n", flush=True)
        is_well = is_well and not played.problems and (fail_over is after_a_cut or not played.ledger.lost)
    if told.write:
        DOCUMENT.write_text(TABLE.sub("".join(f"{line}\n" for line in (*HEAD, *rows)), DOCUMENT.read_text()))
    return 0 if is_well else 1


class Pair:
    """Primary and standby.

    Attributes:
        primary: current primary.
    """

    def __init__(self) -> None:
        self.primary = Cluster(*QUICK)
        self._standby = Cluster(*QUICK, standby_of=self.primary)
        self.url = f"postgresql://postgres@/postgres?host={self.primary.folder},{self._standby.folder}"

    def wait_for_standby(self, *, synchronous: bool) -> None:
        """Let the standby follow; with ``synchronous``, a barrier returns only when the standby has what it covers."""
        if synchronous:
            self.primary.run("alter system set synchronous_standby_names = '*'")
            self.primary.run("select pg_reload_conf()")
        wanted = "sync" if synchronous else "async"
        while self.primary.run("select sync_state from pg_stat_replication where state = 'streaming'") != [(wanted,)]:
            pass

    def cut_off_standby(self) -> None:
        """Cut the standby off, as a pulled cable would."""
        self._standby.signal(signal.SIGSTOP)
        self.primary.run("select pg_terminate_backend(pid) from pg_stat_replication")

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.primary.signal(signal.SIGKILL)
        self._standby.signal(signal.SIGCONT)
        self._standby.promote()
        self.primary, self._standby = self._standby, self.primary

    def follow(self) -> None:
        """Make the former primary the standby."""
        self.primary.run("alter system reset synchronous_standby_names")
        self.primary.run("select pg_reload_conf()")
        self._standby.copy(self.primary)
        self._standby.start()

    def stop(self) -> None:
        """Stop both servers."""
        self.primary.stop()
        self._standby.stop()


FailOver = Callable[[Pair, Crew, Random], None]


def with_all_synced(pair: Pair, crew: Crew, chance: Random) -> None:
    """Fail over while the standby is up to date."""
    pair.wait_for_standby(synchronous=True)
    crew.wait_until_done(crew.counted + chance.randrange(1, TASKS // 4))
    pair.fail_over()


def after_a_cut(pair: Pair, crew: Crew, chance: Random) -> None:
    """Fail over to a standby that lacks the last moments."""
    pair.wait_for_standby(synchronous=False)
    crew.wait_until_done(crew.counted + TASKS // 4)
    pair.cut_off_standby()
    crew.wait_until_done(crew.counted + chance.randrange(1, TASKS // 4))
    pair.fail_over()


KINDS: Final[dict[str, FailOver]] = {"synchronous": with_all_synced, "asynchronous, cut off": after_a_cut}


def play(fail_over: FailOver, seed: int, rounds: int, tasks: int) -> Played:
    """Play ``rounds`` failovers, each while ``tasks`` tasks are pushed and done."""
    chance, pauses, silent = Random(seed), [], []
    gone: set[str] = set()
    with TemporaryDirectory(prefix="failovers-") as folder:
        pair = Pair()
        daemon = Daemon(Path(folder), url=pair.url, timeout=TIMEOUT_SECONDS).start()
        try:
            with Crew(daemon.url, Path(folder), seed, BY_THE_CLIENT) as crew:
                for _ in range(rounds):
                    crew.push(tasks)
                    log = daemon.log()
                    read_again, said = log.count(READ_AGAIN), log.count(LOST)
                    fail_over(pair, crew, chance)
                    began_at = time.monotonic()
                    acknowledged = crew.ledger().pushed
                    crew.push(PROBES)  # earlier tasks may be lost
                    while daemon.log().count(READ_AGAIN) == read_again:
                        pass
                    crew.wait_until_done(crew.counted + 1)
                    pauses.append(time.monotonic() - began_at)
                    missing = _missing(daemon.url, acknowledged) - gone
                    if missing and daemon.log().count(LOST) == said:
                        silent.append(f"failover {len(pauses)}: {len(missing)} tasks were lost and nothing was said")
                    gone |= missing
                    pair.follow()
                ledger = crew.finish()
            return _played(daemon, ledger, max(pauses), silent)
        finally:
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.kill()
            pair.stop()


def _missing(url: str, taskids: set[str]) -> set[str]:
    """Return taskids that the daemon does not know; a task that changes its state while lists are read is asked for by
    name."""
    with Client(url) as client:
        listed = {row.taskid for state in get_args(TaskState) for row in client.tasks.iter(PROJECT, state)}
        return {taskid for taskid in taskids - listed if not _is_known(client, taskid)}


def _is_known(client: Client, taskid: str) -> bool:
    try:
        client.tasks.get(PROJECT, taskid)
    except RequestRejected as rejected:
        if rejected.code != "unknown-task":
            raise
        return False
    return True


def _played(daemon: Daemon, ledger: Ledger, pause: float, silent: list[str]) -> Played:
    client = Peer(daemon.url)
    problems = silent + [f"verify: {each}" for each in client.ask("verify")["problems"]]
    turns = int(client.shell()["lost_turns"])
    client.close()
    if twice := [token for token, times in ledger.tokens.items() if times > 1]:
        problems.append(f"tokens handed out twice: {twice[:5]}")
    log = daemon.log()
    if "Traceback" in log:
        problems.append(log[log.index("Traceback") :][:2000])
    said = log.count(LOST)
    if code := daemon.stop():
        problems.append(f"it stopped with exit code {code}")
    return Played(ledger, said, turns, pause, problems)


def _row(name: str, rounds: int, played: Played) -> str:
    ledger = played.ledger
    # A dispatch waits for no standby, so the last turn's may be repeated, even if none was in these rounds.
    twice = f"up to a turn's worth ({ledger.twice:,} seen)" if KINDS[name] is with_all_synced else ledger.twice
    figures = (rounds, len(ledger.pushed), len(ledger.done), ledger.lost, twice, played.said, played.turns)
    told = (f"{figure:,}" if isinstance(figure, int) else figure for figure in figures)
    return f"| {name} | {' | '.join(told)} | {played.pause:.1f} s |"


if __name__ == "__main__":
    sys.exit(main())
