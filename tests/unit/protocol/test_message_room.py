"""Room in a message: never less than what its parts take when they are encoded."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.msgpack import encode
from msgspec.structs import replace

from taskqueue.core.moves.undo_rows import NO_ROOM
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import MAX_SLOT_CHARS, MAX_VALIDATOR_CHARS, Token
from taskqueue.protocol.message_room import (
    VALIDATORS_BYTES,
    assignment_bytes,
    attempt_bytes,
    fetch_bytes,
    operation_bytes,
    room_beside,
    room_in,
    row_bytes,
)
from taskqueue.protocol.tasks import TaskRow
from taskqueue.protocol.values import (
    PLAIN,
    Assignment,
    Attempt,
    Operation,
    RerunLayer,
    RerunProgress,
    Schedule,
    TaskCounts,
    TaskFilter,
    UndoProgress,
)

MAX_MESSAGE = 512 << 10
LONGEST = 2**63 - 1
LONGEST_HOST = f"{'h' * MAX_SLOT_CHARS}:65535"
TEXTS = st.text(st.sampled_from("a\u00e9\u6f22\U0001f600"), max_size=128)


def assignment(
    url: str,
    taskid: str = "t",
    itag: str = "",
    body: bytes = b"\xc0",
    validators: tuple[str, str, str] = ("", "", ""),
    slot: str = "",
) -> Assignment:
    schedule = Schedule(
        priority=-(2**31),
        exetime=1.5,
        retries=2**31 - 1,
        age=1.5,
        itag=itag or None,
        auto_recrawl=True,
        timeout=1.5,
        job="j" * 64,
    )
    return Assignment(
        "p" * 64, taskid, url, Token(LONGEST), 1.5, Raw(body), 2**31 - 1, 1.5, schedule, 1.5, 1.5, *validators, slot
    )


@given(TEXTS, TEXTS, TEXTS, st.tuples(TEXTS, TEXTS, TEXTS), TEXTS)
def test_a_task_that_is_handed_out_takes_no_more_than_is_told(
    url: str, taskid: str, itag: str, validators: tuple[str, str, str], slot: str
) -> None:
    task = assignment(url, taskid, itag, validators=validators, slot=slot)

    assert len(encode(task)) <= assignment_bytes(task)


@given(st.text(st.sampled_from("a\u00e9\U0001f600"), min_size=1, max_size=MAX_VALIDATOR_CHARS))
def test_what_is_known_of_a_page_takes_no_more_than_is_told(said: str) -> None:
    plain, told = assignment("u"), assignment("u", validators=(said, said, said))

    assert len(encode(told)) - len(encode(plain)) <= VALIDATORS_BYTES


@given(TEXTS)
def test_a_message_with_one_task_and_the_largest_body_beside_its_url_is_not_too_long(url: str) -> None:
    body = encode(bytes(room_beside(url, PLAIN, MAX_MESSAGE) - 5))

    message = Select(number=LONGEST, tasks=[assignment(url, "t" * 128, body=body, slot=LONGEST_HOST)], fetch={})

    assert len(encode(message)) <= MAX_MESSAGE
    assert room_beside(url, PLAIN, MAX_MESSAGE) <= room_in(MAX_MESSAGE)


@given(TEXTS)
def test_a_fetch_takes_no_more_than_is_told(said: str) -> None:
    packed = Raw(encode(said))

    assert len(encode({"p" * 64: packed})) <= fetch_bytes(packed)


@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_a_task_in_a_list_takes_no_more_than_is_told(
    taskid: str, url: str, fetcher: str, error: str, kind: str
) -> None:
    row = TaskRow(taskid, url, -(2**31), 1.5, 2**31 - 1, error=error, fetcher=fetcher, lease_seconds=1.5, kind=kind)
    row = replace(row, job="j" * 64, put_off=65_535, state="processing", pushed_at=1.5)

    assert len(encode(row)) <= row_bytes(row)


@given(TEXTS, TEXTS, TEXTS)
def test_an_attempt_takes_no_more_than_is_told(fetcher: str, error: str, kind: str) -> None:
    attempt = Attempt(1.5, "timeout", fetcher, 1.5, error, kind)

    assert len(encode(attempt)) <= attempt_bytes(fetcher, error, kind)
    assert attempt_bytes(fetcher, error, kind, errors=2) - attempt_bytes(fetcher, error, kind) == len(error.encode())


@given(st.lists(st.just("p" * 64), max_size=20), TEXTS, TEXTS)
def test_an_operation_takes_no_more_than_is_told(projects: list[str], url: str, error: str) -> None:
    wanted = TaskFilter(url=url, error=error, before=1.5, ignore_case=True, job="j" * 64)
    counts = (LONGEST, LONGEST, LONGEST)

    view = Operation(LONGEST, "reprioritise", projects, True, *counts, 1.5, 1.5, "g" * 64, wanted, -(2**31), inf)

    assert len(encode(view)) <= operation_bytes(projects, wanted, None, None)


@given(st.lists(st.lists(TEXTS, max_size=20), max_size=20), TEXTS)
def test_a_rerun_takes_no_more_than_is_told(layers: list[list[str]], taskid: str) -> None:
    shown = [RerunLayer(LONGEST, taskids) for taskids in layers]
    rerun = RerunProgress(taskid, "upstream-failed", LONGEST, shown, LONGEST)
    counts = (LONGEST, LONGEST, LONGEST)

    view = Operation(LONGEST, "rerun", ["p" * 64], True, *counts, 1.5, 1.5, rerun=rerun)

    assert len(encode(view)) <= operation_bytes(["p" * 64], TaskFilter(), rerun, None)


@given(st.lists(TEXTS, max_size=20), st.lists(TEXTS, max_size=20), st.lists(TEXTS, max_size=20))
def test_an_undo_takes_no_more_than_is_told(children: list[str], projects: list[str], flows: list[str]) -> None:
    counts = TaskCounts(*[LONGEST] * 7)
    numbers = (LONGEST, LONGEST, LONGEST)
    undo = UndoProgress(LONGEST, "reprioritise", counts, *numbers, LONGEST, children, LONGEST, projects, LONGEST, flows)
    view = Operation(LONGEST, "undo", ["p" * 64], True, *numbers, 1.5, 1.5, number=LONGEST, undo=undo, no_undo=NO_ROOM)

    assert len(encode(view)) <= operation_bytes(["p" * 64], TaskFilter(), None, undo)
