"""Attacks with requests: many at once, or requests that take long to answer."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from typing import Final

import zmq

from tests.attack.attack import PROJECT, Attack, Request

A_SECOND: Final = 5_000
TICK_SECONDS: Final = 0.01
ITEMS: Final = 10_000
TASKS: Final = 5_000
URL: Final = "http://a/" + "a" * 2_000
GLOB: Final = "*a" * 120 + "*b"
"""Glob that is much work to match with URL."""
MANY_PROJECTS: Final = 2_000
SETTINGS_BYTES: Final = 60_000


def hellos(attack: Attack) -> str:
    """5,000 hellos a second, each from a session of its own."""
    attack.begin()
    return _paced(attack, lambda: ("hello", {"capacity": 1, "projects": [PROJECT]}))


def pushes(attack: Attack) -> str:
    """5,000 new-task a second, each from a session of its own."""
    attack.project()
    attack.begin()
    return _paced(attack, _push)


def _push() -> Request:
    return "new-task", {"project": PROJECT, "tasks": [{"taskid": uuid.uuid4().hex, "url": "http://a/"}]}


def _paced(attack: Attack, request: object) -> str:
    """Send requests at a fixed rate, from random sessions, whether or not they are answered."""
    assert callable(request)
    sent = [0]

    def send(_: int) -> None:
        peer = attack.peer()
        began, mine = time.monotonic(), 0
        while attack.goes_on():
            due = (time.monotonic() - began) * A_SECOND / attack.connections
            while mine < due:
                peer.session, peer.n = uuid.uuid4().hex, 0
                kind, fields = request()
                try:
                    peer.send(kind, **fields)
                except zmq.Again:
                    break
                mine += 1
            while peer.has_message(0):
                peer.socket.recv()
            time.sleep(TICK_SECONDS)
        sent[0] += mine
        peer.close()

    attack.each(send)
    return f"{sent[0]:,} sent"


def malformed(attack: Attack) -> str:
    """A done with 10,000 malformed items, again and again."""
    items = [{"project": "!", "taskid": number} for number in range(ITEMS)]
    attack.begin()
    return attack.flood(lambda: attack.for_ever(lambda: ("done", {"tasks": items})))


def verify(attack: Attack) -> str:
    """The request verify, again and again, with some thousand tasks in memory."""
    _some_tasks(attack, TASKS)
    attack.begin()
    return attack.flood(lambda: attack.for_ever(lambda: ("verify", {})))


def status(attack: Attack) -> str:
    """The request status, sorted, again and again, with some thousand projects."""

    def starts() -> Iterator[Request]:
        for number in attack.count(MANY_PROJECTS):
            yield "project-do", {"project": f"p{number}", "action": "start"}

    attack.flood(starts) if attack.connections == 1 else None
    attack.begin()
    return attack.flood(lambda: attack.for_ever(lambda: ("status", {"sort": "ready", "limit": 200})))


def globs(attack: Attack) -> str:
    """Lists of tasks whose urls match a glob of 120 stars, again and again."""
    _some_tasks(attack, TASKS)
    attack.begin()
    return attack.flood(
        lambda: attack.for_ever(
            lambda: ("task-list", {"project": PROJECT, "state": "ready", "url": GLOB, "limit": 500})
        )
    )


def bulk(attack: Attack) -> str:
    """Operations on all tasks whose urls match a glob of 120 stars, again and again."""
    _some_tasks(attack, TASKS)
    attack.begin()
    fields = {"action": "cancel", "project": PROJECT, "filter": {"states": ["ready"], "url": GLOB}, "dry_run": True}
    return attack.flood(lambda: attack.for_ever(lambda: ("bulk", fields)))


def kept(attack: Attack) -> str:
    """Changes of 60 kB of settings, from ever more sessions: remembered outcomes, and entries of ``taskqueue log``."""

    def requests() -> Iterator[Request]:
        while attack.goes_on():
            settings = {"fetch": {"note": os.urandom(SETTINGS_BYTES)}}
            yield "project-set", {"project": PROJECT, "settings": settings}

    attack.project()
    attack.begin()
    return attack.flood(requests, one_session=False)


def _some_tasks(attack: Attack, tasks: int) -> None:
    peer, number = attack.project(), 0
    while number < round(tasks * attack.scale):
        batch = [{"taskid": f"t{number + each}", "url": URL} for each in range(500)]
        peer.ask("new-task", project=PROJECT, tasks=batch)
        number += 500
