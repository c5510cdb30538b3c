"""A series of troubles for one daemon under load, and the ledger at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos.crew import PROJECT, Ledger
from tests.chaos.troubles import ASK_AGAIN_MS, TROUBLES, Scene
from tests.integration.conftest import Message, Peer
from tests.integration.nursery import run_forked

CHECK: Final = (sys.executable, "-m", "taskqueue.cli.main", "store", "check")


class Played(NamedTuple):
    """Result of a trouble.

    Attributes:
        problems: lines that describe problems; empty if there are none.
    """

    ledger: Ledger
    failures: int
    problems: list[str]


def play(name: str, library: Path, folder: Path, seed: int, rounds: int, tasks: int) -> Played:
    """Play ``rounds`` rounds of a trouble, each while ``tasks`` tasks are pushed and done.

    Raises:
        AssertionError: the daemon ended, or did not start again.
    """
    scene = Scene(library, folder, seed)
    try:
        for n in range(rounds):
            scene.crew.push(tasks)
            if not scene.crew.wait_until_done(n * tasks + scene.chance.randrange(tasks * 4 // 5)):
                break
            TROUBLES[name](scene)
        ledger = scene.crew.finish()
        return Played(ledger, scene.failures(), _problems(scene, ledger))
    finally:
        scene.close()


def _problems(scene: Scene, ledger: Ledger) -> list[str]:
    client = Peer(scene.daemon.url)
    found = [f"verify: {each}" for each in _ask(client, "verify")["problems"]]
    counts = _ask(client, "project-show", project=PROJECT)["project"]["counts"]
    client.close()
    if counts != {"success": len(ledger.pushed)}:
        found.append(f"{len(ledger.pushed)} tasks were acknowledged, the daemon counts {counts}")
    if twice := [token for token, times in ledger.tokens.items() if times > 1]:
        found.append(f"tokens handed out twice: {twice[:5]}")
    log = scene.daemon.log()
    if "Traceback" in log:
        found.append(log[log.index("Traceback") :][:2000])
    if code := scene.daemon.stop():
        found.append(f"it stopped with exit code {code}:\n{log[-1000:]}")
    checked = run_forked([*CHECK, scene.shim.store])
    if checked.returncode:
        found.append(f"store check:\n{checked.stdout}{checked.stderr}")
    return found


def _ask(client: Peer, kind: str, **fields: str) -> Message:
    """Ask until the daemon can use its store, which it may be about to read again."""
    while (reply := client.ask(kind, **fields)).get("code") == "unavailable":
        client.has_message(ASK_AGAIN_MS)
    return reply
