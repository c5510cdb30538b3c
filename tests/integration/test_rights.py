"""Which requests each role may send, on a real socket: what docs/reference/rights.md says."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest
from msgspec.structs import replace

from taskqueue.access.caller import Caller
from taskqueue.access.rights import RIGHTS_OF, ROLES, Right, Role, request_name
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import encode
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.messages import REQUESTS, AnyRequest
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.server.meters import Meters
from taskqueue.server.network.inbox import Inbox
from taskqueue.server.network.router import Router
from tests.zmtp import connected, frame

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "rights.md").read_text(encoding="utf-8")
MAX_MESSAGE: Final = 8 << 20
WAIT_MS: Final = 30_000


def variants(kind: type[AnyRequest]) -> Iterator[Any]:
    """Requests of a type: one for each action."""
    example: Any = EXAMPLES[kind]
    if kind is Hello:
        yield Hello(capacity=1)
        yield Hello(capacity=0)
    elif hasattr(example, "action"):
        hint = get_type_hints(kind)["action"]
        yield from (replace(example, action=action) for action in get_args(hint))
    else:
        yield example


CASES: Final = tuple(
    replace(each, session="s", n=n)
    for n, each in enumerate((each for kind in REQUESTS for each in variants(kind)), start=1)
)


def page_rights() -> dict[str, Right]:
    """Right of each request that the page names."""
    rows = re.findall(r"^\| (look|push|work|run|rule) \| (`.*) \|$", PAGE, re.MULTILINE)
    return {name: right for right, requests in rows for name in re.findall(r"`([^`]+)`", requests)}


def allowed(role: Role) -> set[str]:
    """Names of the cases that the page allows a role."""
    rights = page_rights()
    return {
        name for each in CASES if rights.get(name := request_name(each), rights.get(name.split()[0])) in RIGHTS_OF[role]
    }


class Door:
    """A router and an inbox whose every peer has one role.

    Attributes:
        heard: names of the requests that came to the core.
        refused: replies to all others.
    """

    def __init__(self, router: Router, meters: Meters, role: Role | None) -> None:
        self._router = router
        self._inbox = Inbox(router, meters, lambda name: Caller("web1", role))
        self.heard: list[str] = []
        self.refused: list[ErrorReply] = []

    def take(self, *frames: bytes) -> None:
        """Send frames by a new connection, and hear all of them."""
        with connected(self._router.endpoint) as peer:
            peer.sendall(b"".join(map(frame, frames)))
            while len(self.heard) + len(self.refused) < len(frames):
                if self._inbox.wait() > 0:
                    assert self._router.socket.poll(WAIT_MS)
                incoming, refused = self._inbox.next_requests(MAX_MESSAGE)
                self.heard += [request_name(each.request) for each in incoming]
                self.refused += [each.message for each in refused if isinstance(each.message, ErrorReply)]


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
def router(meters: Meters) -> Iterator[Router]:
    with closing(Router("tcp://127.0.0.1:*", MAX_MESSAGE, meters)) as router:
        yield router


def test_the_page_names_each_request_and_no_other() -> None:
    names = {request_name(each) for each in CASES}
    kinds = {name.split()[0] for name in names}

    assert not {name for name in names if name not in page_rights() and name.split()[0] not in page_rights()}
    assert not set(page_rights()) - names - kinds


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_send_what_the_page_says_and_is_refused_all_else(role: Role, router: Router, meters: Meters) -> None:
    door = Door(router, meters, role)

    door.take(*map(encode, CASES))

    assert set(door.heard) == allowed(role)
    assert {each.n for each in door.refused} == {each.n for each in CASES if request_name(each) not in allowed(role)}
    assert {each.code for each in door.refused} <= {"forbidden"}
    assert (meters.forbidden, meters.malformed) == (len(door.refused), 0)


def test_a_key_that_has_left_the_access_file_may_send_nothing(router: Router, meters: Meters) -> None:
    door = Door(router, meters, None)

    door.take(*map(encode, CASES))

    assert (door.heard, meters.forbidden) == ([], len(CASES))


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

    door.take(*(encode(each) for each in CASES if type(each) is NewTasks))

    (line,) = [each for each in caplog.records if each.getMessage().startswith("forbidden ")]
    assert line.levelno == logging.INFO
    assert "web1 is a viewer, and new-task takes a producer" in line.getMessage()
