"""Attacks on other clients: on their leases, on their sessions, on the room for tasks."""

from __future__ import annotations

import os
from typing import Any, Final

from tests.attack.attack import PROJECT, Attack
from tests.integration.conftest import Peer

LEASES: Final = 100_000
BATCH: Final = 10_000
FAILING: Final = 20_000
AT_ONCE: Final = 2_000
ERROR_CHARACTERS: Final = 2_048
FOREIGN: Final = 50
AROUND: Final = 50
JUMP: Final = 2**63 - 1
WAIT_MS: Final = 2000
HELLO_EVERY: Final = 16
"""Messages with tasks between hellos that say they were seen."""


class Harm(Exception):
    """The attack reached its aim; the text says which."""


def leases(attack: Attack) -> str:
    """100,000 leases, the limit, taken by one fetcher."""
    wanted, peer = round(LEASES * attack.scale), attack.project()
    for first in range(0, wanted + BATCH, BATCH):
        peer.push(PROJECT, *(f"t{first + each}" for each in range(BATCH)))
    attack.begin()
    held: list[int] = []
    _greedy(peer, wanted, held)
    while attack.goes_on() and len(held) < wanted and peer.has_message(WAIT_MS):
        message = peer.receive()
        held += [task["token"] for task in message.get("tasks", ())]
        if message["type"] == "select" and message["number"] % HELLO_EVERY == 0:
            _greedy(peer, wanted, held)
    attack.rest()
    return f"{len(held):,} taken"


def histories(attack: Attack) -> str:
    """Attempts that fail with errors of 2,048 characters, of 20,000 tasks over and over: stored histories."""
    fetcher, failed = attack.project(), 0
    for first in range(0, round(FAILING * attack.scale), BATCH):
        fetcher.push(PROJECT, *(f"t{first + each}" for each in range(BATCH)))
    attack.begin()
    fetcher.send("hello", capacity=AT_ONCE, projects=[PROJECT])
    while attack.goes_on() and fetcher.has_message(WAIT_MS):
        message = fetcher.receive()
        if message["type"] == "select":
            fetcher.send("done", tasks=[_failure(task) for task in message["tasks"]])
            failed += len(message["tasks"])
            if message["number"] % HELLO_EVERY == 0:
                fetcher.send("hello", capacity=AT_ONCE, projects=[PROJECT], seen=fetcher.seen)
    attack.rest()
    return f"{failed:,} failed"


def _failure(task: dict[str, Any]) -> dict[str, Any]:
    error = os.urandom(ERROR_CHARACTERS // 2).hex()
    of = {"project": PROJECT, "taskid": task["taskid"], "token": task["token"]}
    return of | {"ok": False, "error": error, "retry_after": 0.0}


def _greedy(peer: Peer, wanted: int, held: list[int]) -> None:
    peer.send("hello", capacity=wanted, projects=[PROJECT], holds=held, seen=peer.seen)


def jump(attack: Attack) -> str:
    """A hello in a worker's session, with 2^63 - 1 as its number.

    Raises:
        Harm: the worker gets no tasks any more.
    """
    producer, worker, attacker = attack.project(), attack.peer(), attack.peer()
    worker.ask("hello", capacity=1, projects=[PROJECT], name="worker")
    attack.begin()
    shown = any(each.get("session") == worker.session for each in attacker.ask("fetchers").get("fetchers", ()))
    attacker.session, attacker.n = worker.session, JUMP - 1
    said = attacker.ask("hello", capacity=0, projects=[PROJECT], name="worker")["type"]
    said = "refused" if said == "error" else "answered"
    producer.push(PROJECT, "t")
    worker.ask("hello", capacity=1, projects=[PROJECT], name="worker")
    served = _tasks_of(worker, 1)
    attack.rest()
    note = f"its id is {'shown' if shown else 'not shown'}, the hello was {said}"
    if not served:
        raise Harm(f"the worker gets nothing; {note}")
    return note


def tokens(attack: Attack) -> str:
    """50 leases of others, ended with tokens around one that the attacker was given.

    Raises:
        Harm: the attacker ended a lease.
    """
    producer, worker, attacker = attack.project(), attack.peer(), attack.peer()
    foreign = [f"t{number}" for number in range(FOREIGN)]
    producer.push(PROJECT, *foreign)
    worker.ask("hello", capacity=FOREIGN, projects=[PROJECT])
    _tasks_of(worker, FOREIGN)
    attack.begin()
    producer.push(PROJECT, "mine")
    attacker.ask("hello", capacity=1, projects=[PROJECT])
    known = _tasks_of(attacker, 1)[0]["token"]
    near = [known + each for each in range(-2 * AROUND, 2 * AROUND + 1) if known + each > 0]
    ended = sum(_ends(attacker, taskid, near) for taskid in foreign)
    attack.rest()
    if ended:
        raise Harm(f"{ended} of {FOREIGN} foreign leases ended")
    return f"none of {FOREIGN} foreign leases ended"


def _ends(attacker: Peer, taskid: str, near: list[int]) -> bool:
    guesses = [{"project": PROJECT, "taskid": taskid, "token": each} for each in near]
    return "done" in attacker.ask("done", tasks=guesses).get("outcomes", ())


def _tasks_of(peer: Peer, count: int) -> list[dict[str, Any]]:
    """Receive ``count`` tasks, or those that come in time."""
    tasks: list[dict[str, Any]] = []
    while len(tasks) < count and peer.has_message(WAIT_MS):
        tasks += peer.receive().get("tasks", ())
    return tasks
