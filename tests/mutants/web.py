"""Bugs in the dashboard's HTTP server: order of connections, rights, and the bounds of requests.

HTTP modules are imported only where they are changed: daemons, in which bugs are planted too, don't need them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tests.mutants.mutant import Mutant, Replace

ADMITTED: Final = "unit/web/access/test_admission.py"
CROWD: Final = "unit/web/access/test_crowd.py"
STRICT: Final = "unit/web/test_http_connection.py"
SAFETY: Final = "integration/test_web_safety.py"


def _browsers_stream_goes_on(replace: Replace) -> None:
    from taskqueue.web.access.access import Access

    def is_still(self: Any, visitor: Any, *args: Any) -> bool:
        return visitor.is_signed_in or bool(original(self, visitor, *args))

    original = replace(Access, "is_still", is_still)


def _rights_never_looked_at(replace: Replace) -> None:
    from taskqueue.web.access.admission import Rights

    async def look(self: Rights, *args: Any) -> None:
        """Find that all rights are as they were."""

    replace(Rights, "_look", look)


def _looked_at_by_nobody_and_for_ever(replace: Replace) -> None:
    from taskqueue.web.access.admission import Rights

    class Kept(dict[Any, Any]):
        def __bool__(self) -> bool:
            return True

    def init(self: Any, access: Any) -> None:
        original(self, access)
        self._watched = Kept()

    original = replace(Rights, "__init__", init)


def _bodies_awaited_in_a_place(replace: Replace) -> None:
    from taskqueue.web.access import admission

    async def at_once(receive: Any) -> Any:
        return receive

    replace(admission, "_read_ahead", at_once)


def _nobody_gives_way(replace: Replace) -> None:
    from taskqueue.web.access.crowd import Crowd

    replace(Crowd, "_make_room", lambda self, addresses, now: False)


def _given_way_and_still_there(replace: Replace) -> None:
    from taskqueue.web.http_connection import PatientProtocol

    replace(PatientProtocol, "give_way", lambda self: None)


def _answered_connections_stay(replace: Replace) -> None:
    from taskqueue.web.access.crowd import Crowd

    replace(Crowd, "rest", lambda self, connection, now: None)


def _served_connections_give_way(replace: Replace) -> None:
    from taskqueue.web.access.crowd import Crowd

    replace(Crowd, "serve", lambda self, connection: None)


def _a_proxy_is_one_neighbour(replace: Replace) -> None:
    from taskqueue.web.access.crowd import Crowd

    def oldest(self: Any, address: str) -> tuple[int, float, Any]:
        _, since, connection = original(self, address)
        return len(self._idle[address]), since, connection

    original = replace(Crowd, "_oldest", oldest)


def _folded_lines_unfolded(replace: Replace) -> None:
    from taskqueue.web import http_connection

    replace(http_connection, "_AMBIGUOUS", re.compile(rb"(?<!\r)\n|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"))


def _any_version(replace: Replace) -> None:
    from taskqueue.web import http_connection

    replace(http_connection, "_REQUEST_LINE", re.compile(rb"[!-~]+ /[!-~]* HTTP/[0-9]\.([0-9])\r\n"))


def _any_size_of_a_chunk(replace: Replace) -> None:
    from taskqueue.web import http_connection

    replace(http_connection, "_CHUNK_LINE", re.compile(rb"([0-9A-Fa-f]{1,20})(?:;[\t -~\x80-\xff]*)?"))


MUTANTS: Final = (
    Mutant(
        "a signed-in browser's stream goes on after its token is removed",
        _browsers_stream_goes_on,
        (f"{ADMITTED}::test_a_silent_stream_ends_when_its_reader_has_no_right_to_it_any_more",),
    ),
    Mutant(
        "the rights of those who read streams are never looked at",
        _rights_never_looked_at,
        (
            f"{ADMITTED}::test_a_silent_stream_ends_when_its_reader_has_no_right_to_it_any_more",
            f"{ADMITTED}::test_a_silent_stream_ends_when_its_browser_signs_out",
        ),
    ),
    Mutant(
        "rights are checked while no client reads a stream",
        _looked_at_by_nobody_and_for_ever,
        (f"{ADMITTED}::test_nothing_is_looked_at_while_nobody_watches",),
    ),
    Mutant(
        "a body that does not come has a place",
        _bodies_awaited_in_a_place,
        (f"{ADMITTED}::test_forms_whose_bodies_do_not_come_take_no_place_from_others",),
    ),
    Mutant(
        "no idle connection gives way",
        _nobody_gives_way,
        (
            f"{CROWD}::test_the_oldest_gives_way_of_the_address_that_has_most_and_of_proxies_the_oldest",
            f"{SAFETY}::test_quiet_connections_keep_nobody_out_while_they_are_renewed",
        ),
    ),
    Mutant(
        "a connection that gave way stays open",
        _given_way_and_still_there,
        (f"{SAFETY}::test_a_connection_that_gave_way_is_told_so",),
    ),
    Mutant(
        "a connection whose request was answered never gives way",
        _answered_connections_stay,
        (
            f"{CROWD}::test_whoever_was_served_is_as_old_as_the_end_of_its_response",
            f"{SAFETY}::test_quiet_connections_keep_nobody_out_while_they_are_renewed",
        ),
    ),
    Mutant(
        "a connection whose request is being answered gives way",
        _served_connections_give_way,
        (f"{CROWD}::test_whoever_is_being_served_never_gives_way", f"{SAFETY}::test_a_stream_never_gives_way"),
    ),
    Mutant(
        "all who come through a proxy are one neighbour",
        _a_proxy_is_one_neighbour,
        (f"{CROWD}::test_however_many_a_proxy_has_none_of_them_gives_way_while_it_is_fresh",),
    ),
    Mutant(
        "folded lines are taken",
        _folded_lines_unfolded,
        (f"{STRICT}::test_what_can_be_read_in_two_ways_is_refused",),
    ),
    Mutant(
        "any version of HTTP is taken",
        _any_version,
        (f"{STRICT}::test_what_can_be_read_in_two_ways_is_refused", f"{SAFETY}::test_what_is_no_request_is_refused"),
    ),
    Mutant(
        "a chunk may have any size",
        _any_size_of_a_chunk,
        (f"{STRICT}::test_what_can_be_read_in_two_ways_is_refused",),
    ),
)
