"""Frames to messages and back: what is accepted, what is refused, and with which words."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgpack
import msgspec
import pytest
from msgspec import Raw, inspect

from taskqueue.errors import Rejected
from taskqueue.protocol.choices import STATES
from taskqueue.protocol.codec import (
    BRIEF,
    FULL_REASONS,
    MALFORMED_MOST,
    MAX_MESSAGE_BYTES,
    UNREAD,
    decode_outgoing,
    decode_request,
    encode,
    request_number,
)
from taskqueue.protocol.daemon import Verify
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.fetchers import Select, Welcome
from taskqueue.protocol.fields import MAX_FOLLOWERS, MAX_TASKID_BYTES, Token
from taskqueue.protocol.insight import Why
from taskqueue.protocol.messages import REQUESTS, AnyRequest
from taskqueue.protocol.operations import Bulk
from taskqueue.protocol.projects import ProjectSet
from taskqueue.protocol.tasks import Done, NewTasks, TaskCancel
from taskqueue.protocol.values import Again, Assignment, Fetched, NewTask, Recrawl, Schedule, TaskFilter, TaskReport

TASK = {"taskid": "a", "url": "http://a/"}


def frame(type_: str, **fields: Any) -> bytes:
    packed: bytes = msgpack.packb({"type": type_, "v": 1, "session": "s", "n": 7, **fields})
    return packed


def decoded(raw: bytes, most: int = MAX_MESSAGE_BYTES) -> tuple[AnyRequest, dict[tuple[int, ...], str]]:
    """A request, and the reasons of its flaws."""
    heard, flaws = decode_request(raw, most)
    return heard, {path: flaw.reason for path, flaw in flaws.items()}


def rejection(raw: bytes) -> Rejected:
    with pytest.raises(Rejected) as caught:
        decode_request(raw)
    return caught.value


def test_a_request_comes_out_as_it_went_in() -> None:
    sent = NewTasks(session="s", n=7, project="p", tasks=[NewTask("a", "http://a/", Schedule(priority=-5))])

    heard, flaws = decoded(encode(sent))

    assert isinstance(heard, NewTasks)
    assert heard.tasks[0] is not None
    assert heard.tasks[0].schedule.priority == -5
    assert flaws == {}


def test_what_the_scheduler_says_comes_out_as_it_went_in() -> None:
    welcome = Welcome(n=1, epoch=3, fetcher_timeout=60.0, max_message=100, version="1")

    assert decode_outgoing(encode(welcome)) == welcome


def test_a_body_stays_the_bytes_that_it_was() -> None:
    body = msgpack.packb({"fetch": {"headers": {"A": [1, 2.5, None, b"\xff"]}}, "save": "é"})

    heard, _ = decode_request(
        encode(NewTasks(session="s", n=1, project="p", tasks=[NewTask("a", "u", body=msgspec.Raw(body))]))
    )
    select = Select(number=1, tasks=[Assignment("p", "a", "http://a/", Token(1), 600.0, msgspec.Raw(body))])
    said = decode_outgoing(encode(select))

    assert isinstance(heard, NewTasks)
    assert heard.tasks[0] is not None
    assert bytes(heard.tasks[0].body) == body
    assert isinstance(said, Select)
    assert bytes(said.tasks[0].body) == body


def test_a_filter_may_name_every_state_of_a_task() -> None:
    request = Bulk(session="s", n=1, project="news", action="cancel", filter=TaskFilter(states=list(STATES)))

    assert decode_request(encode(request)) == (request, {})


def test_a_malformed_task_spoils_no_other() -> None:
    tasks = [TASK, {**TASK, "schedule": {"priority": "high"}}, TASK]

    heard, flaws = decoded(frame("new-task", project="p", tasks=tasks))

    assert isinstance(heard, NewTasks)
    assert [task is None for task in heard.tasks] == [False, True, False]
    assert flaws == {(1,): "tasks[1].schedule.priority: expected int, got str"}


def test_a_malformed_follow_up_spoils_neither_its_done_nor_its_neighbours() -> None:
    finished = {"project": "p", "taskid": "a", "token": 1, "ok": False, "error": "x", "retry_after": 5.0}
    items = [{**finished, "new": [TASK, {"url": "http://b/"}]}, finished]

    heard, flaws = decoded(frame("done", tasks=items))

    assert isinstance(heard, Done)
    first, second = heard.tasks
    assert first is not None
    assert second == TaskReport("p", "a", Token(1), ok=False, error="x", retry_after=5.0)
    assert (first.ok, first.error, first.retry_after) == (False, "x", 5.0)
    assert [task is None for task in first.new] == [False, True]
    assert flaws == {(0, 1): "tasks[0].new[1]: missing required field taskid"}


def test_a_malformed_outcome_spoils_no_other() -> None:
    finished = {"project": "p", "taskid": "a", "token": 1}
    items = [{**finished, "token": -1, "new": [TASK]}, finished, 5, {**finished, "new": {}}]

    heard, flaws = decoded(frame("done", tasks=items))

    assert isinstance(heard, Done)
    assert [item is None for item in heard.tasks] == [True, False, True, True]
    assert flaws == {
        (0,): "tasks[0].token: expected int >= 0",
        (2,): "tasks[2]: expected map, got int",
        (3,): "tasks[3].new: expected array, got map",
    }


def test_a_report_of_what_no_project_can_be_called_is_as_good_as_one_of_an_unknown_project() -> None:
    reports = [{"project": name, "taskid": "a", "token": 1} for name in ("a b", "", "x" * 65)]

    heard, flaws = decoded(frame("done", tasks=reports))

    assert isinstance(heard, Done)
    assert [each and each.project for each in heard.tasks] == ["a b", None, None]
    assert sorted(flaws) == [(1,), (2,)]


def test_only_the_first_flaws_of_a_message_say_what_is_wrong_and_what_is_good_counts() -> None:
    finished = {"project": "p", "taskid": "a", "token": 1}
    items = [{**finished, "token": "x"}] * (FULL_REASONS + 1) + [finished, {**finished, "new": [TASK, 5]}]

    heard, flaws = decoded(frame("done", tasks=items))

    assert isinstance(heard, Done)
    assert [item is None for item in heard.tasks] == [True] * (FULL_REASONS + 1) + [False, False]
    assert flaws[FULL_REASONS - 1,] == f"tasks[{FULL_REASONS - 1}].token: expected int, got str"
    assert flaws[FULL_REASONS,] == flaws[FULL_REASONS + 2, 1] == BRIEF.reason
    assert len(flaws) == FULL_REASONS + 2


@pytest.mark.parametrize("kind", ["done", "new-task"])
def test_what_comes_after_many_malformed_items_is_rejected_unread(kind: str) -> None:
    good = {"project": "news", "taskid": "p", "token": 1} if kind == "done" else TASK
    items = [good, *[{**good, "taskid": 5}] * MALFORMED_MOST, good]
    frame = msgpack.packb({"type": kind, "project": "news", "session": "s", "n": 1, "tasks": items})
    if kind == "done":
        frame = msgpack.packb({"type": kind, "session": "s", "n": 1, "tasks": items})

    heard, flaws = decoded(frame, 1 << 20)

    assert isinstance(heard, Done | NewTasks)
    assert [item is None for item in heard.tasks] == [False] + [True] * (MALFORMED_MOST + 1)
    assert flaws[MALFORMED_MOST + 1,] == UNREAD.reason


@pytest.mark.parametrize("others", [[], [{"bad": 1}]], ids=["decoded at once", "decoded by item"])
def test_a_done_with_too_many_new_tasks_altogether_is_refused(others: list[dict[str, int]]) -> None:
    finished = {"project": "p", "taskid": "a", "token": 1, "new": [TASK] * (MAX_FOLLOWERS // 2)}
    fits, too_many = [finished, finished, *others], [finished, finished, {**finished, "new": [TASK]}, *others]

    decode_request(frame("done", tasks=fits))
    with pytest.raises(Rejected, match="too-large: tasks: more than 20000 new tasks in one message"):
        decode_request(frame("done", tasks=too_many))


@pytest.mark.parametrize("others", [[], [{"bad": 1}]], ids=["decoded at once", "decoded by item"])
def test_a_nil_among_tasks_is_a_flaw(others: list[dict[str, int]]) -> None:
    heard, flaws = decoded(frame("new-task", project="p", tasks=[None, *others]))

    assert isinstance(heard, NewTasks)
    assert heard.tasks[0] is None
    assert flaws[0,] == "tasks[0]: expected map, got nil"


@pytest.mark.parametrize("others", [[], [{"bad": 1}]], ids=["decoded at once", "decoded by item"])
def test_a_nil_among_outcomes_and_follow_ups_is_a_flaw(others: list[dict[str, int]]) -> None:
    finished = {"project": "p", "taskid": "a", "token": 1, "new": [None]}

    _, flaws = decoded(frame("done", tasks=[None, finished, *others]))

    assert flaws[0,] == "tasks[0]: expected map, got nil"
    assert flaws[1, 0] == "tasks[1].new[0]: expected map, got nil"


@pytest.mark.parametrize("others", [[], [{"bad": 1}]], ids=["decoded at once", "decoded by item"])
def test_a_taskid_is_measured_in_bytes(others: list[dict[str, int]]) -> None:
    fits, long = "é" * (MAX_TASKID_BYTES // 2), "é" * (MAX_TASKID_BYTES // 2) + "e"

    tasks = [{**TASK, "taskid": fits}, {**TASK, "taskid": long}, *others]
    heard, flaws = decoded(frame("new-task", project="p", tasks=tasks))

    assert isinstance(heard, NewTasks)
    assert [task is None for task in heard.tasks[:2]] == [False, True]
    assert flaws[1,] == "tasks[1].taskid: expected at most 128 bytes of utf-8"


@pytest.mark.parametrize("others", [[], [{"bad": 1}]], ids=["decoded at once", "decoded by item"])
def test_a_long_taskid_of_an_outcome_or_a_follow_up_is_a_flaw(others: list[dict[str, int]]) -> None:
    finished = {"project": "p", "taskid": "a", "token": 1}
    long = "é" * 65
    items = [{**finished, "taskid": long, "new": [{}]}, {**finished, "new": [{**TASK, "taskid": long}]}]

    heard, flaws = decoded(frame("done", tasks=[*items, *others]))

    assert isinstance(heard, Done)
    assert heard.tasks[0] is None
    assert flaws[0,] == "tasks[0].taskid: expected at most 128 bytes of utf-8" or (0, 0) not in flaws
    assert flaws[1, 0] == "tasks[1].new[0].taskid: expected at most 128 bytes of utf-8"


@pytest.mark.parametrize(
    ("schedule", "flaw"),
    [
        ({"slot": ""}, "slot: expected str of length >= 1"),
        ({"slot": "a" * 254}, "slot: expected str of length <= 253"),
        (
            {"slot": "a\nb"},
            "slot: expected 1 to 253 characters without control characters, such as line ends and tabs",
        ),
        ({"recrawl": {"min": 0.5, "max": 9.0}}, "recrawl.min: expected float >= 1.0"),
        ({"recrawl": {"min": 9.0, "max": 8.0}}, "recrawl: min is above max"),
        ({"recrawl": {"min": 9.0}}, "recrawl: missing required field max"),
    ],
)
def test_what_a_schedule_says_of_a_slot_or_a_recrawl_is_in_its_bounds(schedule: dict[str, Any], flaw: str) -> None:
    fits = {"slot": "é" * 253, "recrawl": {"min": 5, "max": 5.0}}

    heard, flaws = decoded(
        frame("new-task", project="p", tasks=[{**TASK, "schedule": fits}, {**TASK, "schedule": schedule}])
    )

    assert isinstance(heard, NewTasks)
    assert heard.tasks[0] is not None
    assert heard.tasks[0].schedule.recrawl == Recrawl(5.0, 5.0)
    assert flaws == {(1,): f"tasks[1].schedule.{flaw}"}


def test_a_malformed_word_about_a_fetch_spoils_no_other_report() -> None:
    finished = {"project": "p", "taskid": "a", "token": 1}
    said = [{"status_code": 429, "error_kind": "http"}, {"status_code": 99}, {"error_kind": "x"}, {"etag": "a" * 257}]

    heard, flaws = decoded(frame("done", tasks=[{**finished, "fetched": each} for each in said]))

    assert isinstance(heard, Done)
    assert heard.tasks[0] == TaskReport("p", "a", Token(1), fetched=Fetched(429, error_kind="http"))
    assert flaws == {
        (1,): "tasks[1].fetched.status_code: expected int >= 100",
        (2,): "tasks[2].fetched.error_kind: 'x' is none of connection, http, other, timeout",
        (3,): "tasks[3].fetched.etag: expected str of length <= 256",
    }


def test_a_part_that_says_how_its_task_ends_is_refused_and_spoils_no_other_report() -> None:
    part = {"project": "p", "taskid": "a", "token": 1, "part": True}

    heard, flaws = decoded(frame("done", tasks=[part, {**part, "ok": False}, {**part, "result": 5}]))

    assert isinstance(heard, Done)
    assert heard.tasks == [TaskReport("p", "a", Token(1), part=True), None, None]
    said = "a part has new tasks only; the last report says the rest"
    assert flaws == {(1,): f"tasks[1].part: {said}", (2,): f"tasks[2].part: {said}"}


def test_only_a_failure_that_is_retried_says_how_the_next_attempt_differs() -> None:
    finished = {"project": "p", "taskid": "a", "token": 1, "again": {"body": [1], "counts": False}}

    heard, flaws = decoded(
        frame("done", tasks=[{**finished, "ok": False}, finished, {**finished, "ok": False, "retry": False}])
    )

    assert isinstance(heard, Done)
    again = Again(False, Raw(b"\x91\x01"))
    assert heard.tasks == [TaskReport("p", "a", Token(1), ok=False, again=again), None, None]
    said = "only a task that failed and is retried has a next attempt"
    assert flaws == {(1,): f"tasks[1].again: {said}", (2,): f"tasks[2].again: {said}"}


def test_a_report_and_an_assignment_of_a_task_without_a_slot_are_as_long_as_ever() -> None:
    done = Done(session="s", n=1, tasks=[TaskReport("p", "a", Token(1))])
    select = Select(number=1, tasks=[Assignment("p", "a", "u", Token(1), 60.0)])

    assert msgpack.unpackb(encode(done))["tasks"] == [{"project": "p", "taskid": "a", "token": 1}]
    assert set(msgpack.unpackb(encode(select))["tasks"][0]) == {"project", "taskid", "url", "token", "timeout"}
    assert max(len(kind.__struct_fields__) for kind in (Assignment, TaskReport, Schedule)) < 16, "a longer map's header"


def test_a_too_long_taskid_of_a_flow_refuses_the_message() -> None:
    tasks = [TASK, {**TASK, "taskid": "é" * 65}]

    refused = rejection(frame("flow-stage", project="p", flow="f", first=0, tasks=tasks))

    assert refused.reason == "tasks[1].taskid: expected at most 128 bytes of utf-8"


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        ("task-show", {"taskid": "é" * 65}),
        ("why", {"taskid": "é" * 65}),
        ("task-retry", {"taskids": ["é" * 65]}),
        ("task-cancel", {"taskids": ["é" * 65]}),
    ],
)
def test_a_request_about_a_too_long_taskid_is_refused(type_: str, fields: dict[str, Any]) -> None:
    error = rejection(frame(type_, project="p", **fields))

    assert error.code == "malformed"
    assert "at most 128 bytes" in error.reason


def test_a_question_about_no_task_in_particular_is_taken() -> None:
    assert isinstance(decode_request(frame("why", project="p"))[0], Why)


@pytest.mark.parametrize(
    ("type_", "fields", "reason"),
    [
        ("project-wait", {"project": "p", "seconds": 61}, "seconds: expected float <= 60.0"),
        ("project-hold", {"project": "p"}, "message: missing required field seconds"),
        (
            "fetcher-do",
            {"fetcher": "f", "action": "x" * 9999},
            f"action: '{'x' * 63}… is none of drain, resume",
        ),
        ("bulk", {"action": "retry", "filter": {"state": "failed"}}, "filter: unknown field state"),
        ("bulk", {"action": "retry", "filter": {"before": -1}}, "filter.before: expected float >= 0.0"),
        (
            "task-list",
            {"project": "p", "states": ["ready", "faild"]},
            f"states[1]: 'faild' is none of {', '.join(sorted(STATES))}; did you mean failed?",
        ),
        (
            "slot-set",
            {"project": "p", "slot": "s", "delay": "aut"},
            "delay: 'aut' is none of auto, a number; did you mean auto?",
        ),
        (
            "flow-stage",
            {"project": "p", "flow": "f", "first": 0, "tasks": [TASK, {**TASK, "on_parent_failure": "onyl"}]},
            "tasks[1].on_parent_failure: 'onyl' is none of fail, only, run, wait; did you mean only?",
        ),
    ],
)
def test_a_refused_question_names_the_field(type_: str, fields: dict[str, Any], reason: str) -> None:
    assert rejection(frame(type_, **fields)).reason == reason


def leaves(info: Any, *, is_list: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the types of a field's single values, and whether they come in a list."""
    match info:
        case inspect.Metadata(type=inner):
            yield from leaves(inner, is_list=is_list)
        case inspect.UnionType(types=types):
            for each in types:
                yield from leaves(each, is_list=is_list)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            yield from leaves(inner, is_list=True)
        case _:
            yield info, is_list


LEAVES = [
    (kind, field.encode_name, is_list, leaf)
    for kind in REQUESTS
    for field in msgspec.structs.fields(kind)
    for leaf, is_list in leaves(inspect.type_info(field.type))
]


def reason_for(kind: type[AnyRequest], name: str, value: str, *, is_list: bool) -> str:
    """Return the reason why the example of a request with this value is refused, without the place."""
    said = msgpack.unpackb(encode(EXAMPLES[kind])) | {name: [value] if is_list else value}
    place, _, reason = rejection(msgpack.packb(said)).reason.partition(": ")
    assert place == (f"{name}[0]" if is_list else name)
    return reason


@pytest.mark.parametrize(
    ("kind", "name", "is_list", "words"),
    [(*place, leaf.values) for *place, leaf in LEAVES if isinstance(leaf, inspect.LiteralType)],
    ids=str,
)
def test_a_wrong_word_is_answered_with_all_that_its_field_takes(
    kind: type[AnyRequest], name: str, is_list: bool, words: tuple[str, ...]
) -> None:
    assert reason_for(kind, name, "qqq", is_list=is_list).startswith(f"'qqq' is none of {', '.join(words)}")


@pytest.mark.parametrize(
    ("kind", "name", "is_list"),
    [place for *place, leaf in LEAVES if isinstance(leaf, inspect.StrType) and leaf.pattern],
    ids=str,
)
def test_a_wrong_character_is_answered_with_words_and_no_pattern(
    kind: type[AnyRequest], name: str, is_list: bool
) -> None:
    reason = reason_for(kind, name, "\n", is_list=is_list)

    assert reason.startswith(("expected 1 to ", "expected at most "))
    assert "regex" not in reason


@pytest.mark.parametrize("others", [[], [{"bad": 1}]], ids=["decoded at once", "decoded by item"])
def test_a_task_with_an_option_that_lacks_another_one_is_refused_and_spoils_no_other(others: list[Any]) -> None:
    recurring = {"recrawl": {"min": 5.0, "max": 9.0}}
    schedules: list[dict[str, Any]] = [
        {"repeat": 3},
        {"repeat": 0, "auto_recrawl": True},
        {"repeat": 3, "age": 60.0},
        {"auto_recrawl": True},
        {"auto_recrawl": True, "force_update": True},
        {"auto_recrawl": True, "age": 60.0},
        {"auto_recrawl": True, **recurring},
        {"auto_recrawl": False},
        {"repeat": 3, "age": 60.0, "auto_recrawl": True},
        {"repeat": 3, **recurring},
        recurring,
    ]
    tasks: list[dict[str, Any]] = [{**TASK, "schedule": schedule} for schedule in schedules]
    only = {**TASK, "on_parent_failure": "only"}
    tasks += [only, {**only, "depends_on": ["b"]}]

    heard, flaws = decoded(frame("new-task", project="p", tasks=[*tasks, *others]))

    assert isinstance(heard, NewTasks)
    assert [at for at, task in enumerate(heard.tasks) if task is None and at < len(tasks)] == [0, 1, 2, 3, 4, 11]
    repeat = "schedule.repeat: goes with a task that recurs; give recrawl, or auto_recrawl and age, too"
    lonely = 'on_parent_failure: "only" goes with parents that may fail; name them in depends_on (after, in a flow)'
    alone = "schedule.auto_recrawl: goes with age, after which the task runs again; give age, too, or recrawl instead"
    wanted = {0: repeat, 1: repeat, 2: repeat, 3: alone, 4: alone, 11: lonely}
    said = {path: flaw for path, flaw in flaws.items() if path < (len(tasks),)}
    assert said == {(at,): f"tasks[{at}].{flaw}" for at, flaw in wanted.items()}


def test_a_follow_up_with_an_option_that_lacks_another_one_is_refused_and_its_report_taken() -> None:
    finished = {"project": "p", "taskid": "a", "token": 1, "new": [{**TASK, "schedule": {"repeat": 1}}, TASK]}

    heard, flaws = decoded(frame("done", tasks=[finished]))

    assert isinstance(heard, Done)
    assert heard.tasks[0] is not None
    assert [task is None for task in heard.tasks[0].new] == [True, False]
    assert flaws[0, 0].startswith("tasks[0].new[0].schedule.repeat: goes with a task that recurs")


def test_a_task_of_a_flow_with_an_option_that_lacks_another_one_refuses_the_message() -> None:
    tasks = [TASK, {**TASK, "on_parent_failure": "only"}]

    refused = rejection(frame("flow-stage", project="p", flow="f", first=0, tasks=tasks))

    assert refused.reason.startswith('tasks[1].on_parent_failure: "only" goes with parents')


def test_the_fetch_of_a_project_stays_the_bytes_that_it_was() -> None:
    packed = msgpack.packb({"headers": {"A": b"\xff"}})

    said = decode_outgoing(encode(Select(number=1, tasks=[], fetch={"p": msgspec.Raw(packed)})))

    assert isinstance(said, Select)
    assert bytes(said.fetch["p"]) == packed


def test_a_request_about_named_tasks_is_taken() -> None:
    heard, _ = decode_request(frame("task-cancel", project="p", taskids=["é" * 64]))

    assert isinstance(heard, TaskCancel)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (frame("hello", holds=[1, "x"]), "holds[1]: expected int, got str"),
        (frame("hello", colour=1), "message: unknown field colour"),
        (frame("dance"), "type: invalid value 'dance'"),
        (frame("new-task", tasks=[]), "message: missing required field project"),
        (frame("new-task", project="p", tasks=[{}] * 10_001), "tasks: expected array of length <= 10000"),
        (frame("done", tasks=5), "tasks: expected array, got int"),
        (frame("new-task", project="p", tasks=[TASK])[:-1], "message: input data was truncated"),
        (frame("verify") + b"\x00", "message: malformed: trailing characters (byte 29)"),
        (frame("verify").replace(b"\xa1s", b"\xa1\xff"), "message: a string is not utf-8"),
        (msgpack.packb([1]), "message: expected map, got array"),
        (b"", "message: input data was truncated"),
    ],
)
def test_a_refusal_names_the_field(raw: bytes, reason: str) -> None:
    error = rejection(raw)

    assert (error.code, error.reason) == ("malformed", reason)


@pytest.mark.parametrize("missing", ["session", "n"])
@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        ("hello", {}),
        ("new-task", {"project": "p", "tasks": [TASK]}),
        ("new-task", {"project": "p", "tasks": [{}]}),
        ("done", {"tasks": []}),
        ("done", {"tasks": [{}]}),
        ("project-set", {"project": "p", "settings": {}}),
        ("group-set", {"group": "g", "settings": {}}),
    ],
)
def test_a_request_without_its_session_or_number_is_refused(type_: str, fields: dict[str, Any], missing: str) -> None:
    said = {"type": type_, "v": 1, "session": "s", "n": 7, **fields}
    del said[missing]

    error = rejection(msgpack.packb(said))

    assert (error.code, error.reason) == ("malformed", f"message: missing required field {missing}")


def test_a_request_that_no_client_has_sent_is_refused() -> None:
    assert rejection(encode(Verify())).reason.startswith("session: expected str of length >= 1")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1.0])
@pytest.mark.parametrize("key", ["exetime", "delay", "age", "timeout"])
def test_a_time_that_is_no_number_or_no_end_is_refused(key: str, value: float) -> None:
    _, flaws = decoded(frame("new-task", project="p", tasks=[{**TASK, "schedule": {key: value}}]))

    assert flaws[0,].startswith(f"tasks[0].schedule.{key}: expected ")


def test_another_version_is_refused_as_such_whatever_else_it_says() -> None:
    error = rejection(msgpack.packb({"type": "future", "v": 2, "n": 7, "new": True}))

    assert error.code == "version"
    assert "version 1" in error.reason
    assert "not 2" in error.reason


def test_a_message_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(Rejected) as caught:
        decode_request(b"\xc1" * 101, max_message=100)

    assert caught.value.code == "too-large"
    assert "101 bytes, at most 100" in caught.value.reason


@pytest.mark.parametrize("later", [{}, {"type": "verify"}])
def test_long_settings_are_refused_before_they_are_decoded(later: dict[str, Any]) -> None:
    fields = frame("project-set", project="p", settings={"fetch": {"x": [{}] * 200_000}})[1:]
    again = b"".join(msgpack.packb(part) for pair in later.items() for part in pair)
    tracemalloc.start()

    error = rejection(bytes([0x86 + len(later)]) + fields + again)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.code == "malformed" if later else error.code == "too-large"
    assert most < 5_000_000


def test_settings_come_out_as_they_went_in() -> None:
    sent = ProjectSet(session="s", n=7, project="p", actor="anna", settings={"rate": 2.5, "fetch": {"a": [b"x", None]}})
    assert decode_request(encode(sent)) == (sent, {})


def test_settings_that_are_no_map_are_refused_by_their_name() -> None:
    assert "settings" in rejection(frame("project-set", project="p", settings=[1])).reason


def test_a_message_of_just_the_limit_is_taken() -> None:
    raw = frame("verify")

    assert decode_request(raw, max_message=len(raw))


def test_a_refused_request_can_be_answered_by_its_number() -> None:
    assert request_number(frame("dance")) == 7
    assert request_number(msgpack.packb({"v": 2, "n": 9})) == 9


@pytest.mark.parametrize("n", [0, -1, 2**63, "1", 1.0, None, True, [1]])
def test_a_number_that_is_none_reads_as_zero(n: Any) -> None:
    assert request_number(frame("verify", n=n)) == 0
    assert rejection(frame("verify", n=n)).code == "malformed"


def test_a_frame_cut_short_has_no_number() -> None:
    assert request_number(frame("verify")[:-1]) == 0


def test_a_reason_is_short_however_long_the_names_in_it() -> None:
    error = rejection(frame("hello", **{"x" * 100_000: 1}))

    assert len(error.reason) <= 400


def test_what_the_scheduler_never_says_is_refused() -> None:
    with pytest.raises(Rejected) as caught:
        decode_outgoing(frame("dance"))

    assert caught.value.reason == "type: invalid value 'dance'"
