"""Attacks with names: what a client can make the daemon remember."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import zmq

from tests.attack.attack import PROJECT, Attack, Request, big_body

HELLOS: Final = 6_501
NAMES: Final = 1_000
NAME: Final = 64
MAPS: Final = 65_000
FETCHES: Final = 560
PROJECTS: Final = 64_000
DEFERRED: Final = 208
WAITS: Final = 103_000


def name() -> str:
    """Make a random name of NAME characters."""
    return names(1)[0]


def names(count: int) -> list[str]:
    """Make ``count`` random names."""
    chance = os.urandom(count * NAME // 2).hex()
    return [chance[first : first + NAME] for first in range(0, len(chance), NAME)]


def wishes(attack: Attack) -> str:
    """6,501 hellos from as many sessions, each with 1,000 random names of projects."""

    def hellos() -> Iterator[Request]:
        for _ in attack.count(HELLOS // attack.connections):
            yield "hello", {"capacity": 1, "projects": names(NAMES)}

    attack.begin()
    return attack.flood(hellos, one_session=False)


def fetch_maps(attack: Attack) -> str:
    """560 projects whose setting fetch has a list of 65,000 empty maps."""
    maps: list[dict[str, str]] = [{} for _ in range(MAPS)]

    def settings() -> Iterator[Request]:
        for _ in attack.count(FETCHES // attack.connections):
            yield "project-set", {"project": name(), "settings": {"fetch": {"maps": maps}}}

    attack.begin()
    return attack.flood(settings)


def projects(attack: Attack) -> str:
    """64,000 projects."""

    def starts() -> Iterator[Request]:
        for _ in attack.count(PROJECTS // attack.connections):
            yield "project-do", {"project": name(), "action": "start"}

    attack.begin()
    return attack.flood(starts)


def deferred(attack: Attack) -> str:
    """208 force_update of leased tasks, each with a body of 7.9 MB."""
    peer = attack.project()
    taskids = [f"t{number}" for number in attack.count(DEFERRED)]
    peer.push(PROJECT, *taskids)
    peer.send("hello", capacity=len(taskids), projects=[PROJECT])
    handed = 0
    while handed < len(taskids):
        handed += len(peer.receive().get("tasks", ()))
    attack.begin()
    outcomes = []
    with suppress(zmq.Again):
        for taskid, number in zip(taskids, attack.count(DEFERRED), strict=False):
            said = peer.ask("new-task", project=PROJECT, tasks=[_forced(taskid, number)])
            outcomes.append(said.get("outcomes", ["refused"])[0])
    return ", ".join(f"{outcomes.count(each)} {each}" for each in dict.fromkeys(outcomes)) or "unanswered"


def _forced(taskid: str, number: int) -> dict[str, object]:
    return {"taskid": taskid, "url": "http://a/", "schedule": {"force_update": True}, "body": big_body(number)}


def waits(attack: Attack) -> str:
    """103,000 project-wait from as many sessions, for a project that does not finish."""
    attack.project().push(PROJECT, "later", delay=86_400)

    def ask(_: int) -> None:
        peer = attack.peer()
        for _ in attack.count(WAITS // attack.connections):
            peer.session, peer.n = name(), 0
            peer.send("project-wait", project=PROJECT, seconds=60.0)
        attack.rest()
        peer.close()

    attack.begin()
    attack.each(ask)
    return ""
