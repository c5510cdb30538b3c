"""Refusals by the receiver because of the caller's role or projects, on a real socket."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.access.checks import Everybody
from taskqueue.access.rights import request_name
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.callers import Caller, Role
from taskqueue.protocol.codec import encode
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.messages import REQUESTS
from taskqueue.protocol.projects import ProjectShow
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import NewTask
from taskqueue.server.meters import Meters
from taskqueue.server.network.receiver import Receiver
from taskqueue.server.network.router import Router
from tests.unit.server.network.conftest import MAX_MESSAGE, WAIT_MS
from tests.zmtp import connected, frame


class OneRole(Everybody):
    """Every key has this role."""

    def __init__(self, role: Role | None, *patterns: str) -> None:
        self._caller = Caller("web1", role, patterns=patterns or ("*",))

    def caller_of(self, name: str) -> Caller:
        return self._caller


class Door:
    """A router and a receiver whose every peer has one role, and reaches the projects of these patterns.

    Attributes:
        heard: names of the requests that came to the core.
        flaws: codes of their flaws.
        refused: replies to all others.
    """

    def __init__(self, router: Router, meters: Meters, role: Role | None, *patterns: str) -> None:
        self._router = router
        self._receiver = Receiver(router, meters, OneRole(role, *patterns))
        self.heard: list[str] = []
        self.flaws: list[str] = []
        self.refused: list[ErrorReply] = []

    def take(self, *frames: bytes) -> None:
        """Send frames by a new connection, and hear all of them."""
        with connected(self._router.endpoint) as peer:
            peer.sendall(b"".join(map(frame, frames)))
            while len(self.heard) + len(self.refused) < len(frames):
                if self._receiver.wait() > 0:
                    assert self._router.socket.poll(WAIT_MS)
                incoming, refused = self._receiver.next_requests(MAX_MESSAGE)
                self.heard += [request_name(each.request) for each in incoming]
                self.flaws += [flaw.code for each in incoming for flaw in each.flaws.values()]
                self.refused += [each.message for each in refused if isinstance(each.message, ErrorReply)]


def test_a_key_that_has_left_the_access_file_may_send_nothing(router: Router, meters: Meters) -> None:
    door = Door(router, meters, None)

    door.take(*(encode(EXAMPLES[kind]) for kind in REQUESTS))

    assert {each.code for each in door.refused} == {"forbidden"}
    assert (door.heard, meters.forbidden) == ([], len(REQUESTS))


@pytest.mark.parametrize("batch", [NewTasks, Done], ids=lambda kind: kind.__name__)
def test_a_batch_with_malformed_items_is_refused_as_a_whole(
    batch: type[NewTasks | Done], router: Router, meters: Meters
) -> None:
    example: Any = EXAMPLES[batch]
    door = Door(router, meters, "viewer")

    door.take(encode(replace(example, tasks=[*example.tasks, None])))

    (refused,) = door.refused
    assert refused.code == "forbidden"


def test_who_is_refused_is_told_in_the_log_but_not_as_an_error(
    router: Router, meters: Meters, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskqueue")
    door = Door(router, meters, "viewer")

    door.take(encode(EXAMPLES[NewTasks]))

    (line,) = [each for each in caplog.records if each.getMessage().startswith("forbidden ")]
    assert line.levelno == logging.INFO
    assert "web1 is a viewer, and new-task takes a producer" in line.getMessage()


def test_a_batch_comes_to_the_core_without_its_items_of_other_projects_and_the_log_tells_of_them(
    router: Router, meters: Meters, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskqueue")
    door = Door(router, meters, "producer", "news-*")
    tasks: list[NewTask | None] = [NewTask("a", "http://a/"), NewTask("b", "http://a/", project="shop")]

    door.take(encode(NewTasks(session="s", n=1, project="news-a", tasks=tasks)))

    assert (door.heard, door.flaws, door.refused, meters.forbidden) == (["new-task"], ["forbidden"], [], 1)
    (line,) = [each for each in caplog.records if each.getMessage().startswith("forbidden ")]
    assert "web1 reaches news-*, and project" in line.getMessage()


def test_a_request_that_names_another_project_does_not_come_to_the_core(router: Router, meters: Meters) -> None:
    door = Door(router, meters, "admin", "news-*")

    door.take(
        encode(ProjectShow(session="s", n=1, project="news-a")), encode(ProjectShow(session="s", n=2, project="shop"))
    )

    (refused,) = door.refused
    assert (refused.n, refused.code, door.heard) == (2, "forbidden", ["project-show"])
