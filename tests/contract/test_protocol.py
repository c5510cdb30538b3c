"""docs/reference/protocol.md says what the code does: each message, field and default, each byte of its examples.

The examples are checked with the plain msgpack package, as a client in another language would see them, and with our
own codec, both ways.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgpack
import msgspec
import pytest
from msgspec import NODEFAULT, Struct

from taskqueue import canonical_url, default_taskid
from taskqueue.core.request_rules import RULES
from taskqueue.protocol import (
    base,
    choices,
    daemon,
    fetchers,
    fields,
    flows,
    insight,
    messages,
    operations,
    projects,
    slots,
    tasks,
    values,
)
from taskqueue.protocol.base import ChangeRequest, Reply, Request, WaitingRequest
from taskqueue.protocol.codec import decode_outgoing, decode_request, encode
from taskqueue.protocol.daemon import DaemonPoint, Histogram, ProjectStand, StoreLevel
from taskqueue.protocol.fetchers import Fetcher, HelloWanted, Hung, HungPlaces, LeaseRef, Select
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.protocol.insight import (
    FailureGroup,
    HistoryPoint,
    ProjectPulse,
    ProjectStats,
    StandingProject,
    Window,
    Windows,
)
from taskqueue.protocol.messages import OUTGOING, REPLY_TO, REQUESTS
from taskqueue.protocol.projects import CronJob, Project, Remaining, SharedBucket
from taskqueue.protocol.slots import Slot, SlotDivision
from taskqueue.protocol.tasks import Child, ItemError, PackedParent, TaskRow
from taskqueue.protocol.values import (
    Again,
    Assignment,
    Attempt,
    Change,
    EventTotals,
    Fetched,
    NewTask,
    Operation,
    Recrawl,
    RerunLayer,
    RerunProgress,
    Schedule,
    TaskCounts,
    TaskFilter,
    TaskOf,
    TaskReport,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")

UNASKED: tuple[type[Struct], ...] = (Select, HelloWanted)
REPLIES: tuple[type[Struct], ...] = tuple(kind for kind in OUTGOING if kind not in UNASKED)

PARTS: dict[type[Struct], str] = {
    Hung: "hello",
    NewTask: "new-task",
    Schedule: "new-task",
    Recrawl: "new-task",
    TaskOf: "new-task",
    TaskReport: "done",
    Fetched: "done",
    Again: "done",
    ItemError: "new-task-reply",
    Fetcher: "status-reply",
    HungPlaces: "status-reply",
    Project: "status-reply",
    Assignment: "select",
    TaskFilter: "bulk",
    LeaseRef: "extend",
    CronJob: "status-reply",
    SharedBucket: "status-reply",
    Remaining: "status-reply",
    ProjectStats: "stats-reply",
    Windows: "stats-reply",
    Window: "stats-reply",
    Attempt: "task-reply",
    PackedParent: "task-parents-reply",
    Child: "task-children-reply",
    TaskRow: "task-list-reply",
    Operation: "operation-reply",
    RerunProgress: "operation-reply",
    RerunLayer: "operation-reply",
    FailureGroup: "failures-reply",
    Slot: "slot-list-reply",
    SlotDivision: "project-reply",
    Change: "log-reply",
    StandingProject: "why-reply",
    Flow: "flow-reply",
    FlowTaskStatus: "flow-tasks-reply",
    HistoryPoint: "stats-history-reply",
    Histogram: "daemon-reply",
    StoreLevel: "daemon-reply",
    ProjectStand: "daemon-reply",
    DaemonPoint: "daemon-history-reply",
    ProjectPulse: "watch-reply",
}
"""What messages are made of, and the section whose tables list its fields."""

DEFAULTS: dict[str, Any] = {
    "": NODEFAULT, "nil": None, "empty": [], '""': "", "0": 0, "1": 1, "30": 30, "100": 100, "true": True,
    "false": False, "1000": 1000, '"name"': "name", '"session"': "session", '"error"': "error", '"minute"': "minute",
    '"backlog"': "backlog", '"fail"': "fail", '"task"': "task", "none": (),
}  # fmt: skip
"""The words of the column ``default``."""


class Example(NamedTuple):
    """A message, the bytes beside it, and the section that they stand in."""

    section: str
    value: dict[str, Any]
    frame: bytes


class Row(NamedTuple):
    """One field in a table."""

    field: str
    default: str


def sections() -> dict[str, str]:
    """The text under each heading."""
    parts = re.split(r"^#{1,3} (.+)$", PAGE, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


SECTIONS = sections()


def examples() -> Iterator[Example]:
    for section, text in SECTIONS.items():
        for value, octets in re.findall(r"```json\n(.*?)```\s*```hex\n(.*?)```", text, flags=re.S):
            yield Example(section, json.loads(value), bytes.fromhex(octets))


EXAMPLES = list(examples())


def rows(section: str) -> list[Row]:
    """The fields in the tables of a section; one row may be about several."""
    found: list[Row] = []
    for names, default in re.findall(r"^\| (`[^|]+`) \|[^|]*\| ?([^|]*?) ?\|[^|]*\|$", SECTIONS[section], flags=re.M):
        found += [Row(name, default) for name in re.findall(r"`([^`]+)`", names)]
    return found


def tag_of(kind: type[Struct]) -> str:
    tag = kind.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


REQUEST_TAGS = {tag_of(kind) for kind in REQUESTS}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if value is NIL:
        return None
    if value == {} or isinstance(value, Struct):
        return []
    return int(value) if isinstance(value, float) else value


def defaults_of(kind: type[Struct], common: type[Struct] | None = None) -> dict[str, Any]:
    """Fields of a struct and their defaults, those of its base apart."""
    known = set() if common is None else set(common.__struct_fields__)
    return {field.encode_name: default_of(field) for field in msgspec.structs.fields(kind) if field.name not in known}


def longer_map(value: dict[str, Any]) -> bytes:
    """A map whose length stands in two bytes."""
    packed: bytes = msgpack.packb(value)
    return b"\xde\x00" + bytes([len(value)]) + packed[1:]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.section)
def test_the_bytes_of_an_example_are_its_message_in_plain_msgpack(example: Example) -> None:
    assert msgpack.unpackb(example.frame) == example.value
    shortest = msgpack.packb(example.value)
    # Of what may have more than 15 fields, the codec writes the map's length in two bytes, always.
    slots = example.value.get("slots")
    parts = [
        *(example.value.get(name) for name in ("project", "slot", "operation")),
        *(slots if isinstance(slots, list) else []),
    ]
    for part in parts:
        if isinstance(part, dict):
            shortest = shortest.replace(msgpack.packb(part), longer_map(part))
    longer = b"\xde\x00" + bytes([len(example.value)]) + shortest[1:]
    assert example.frame in (shortest, longer)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.section)
def test_the_codec_reads_and_writes_an_example_byte_for_byte(example: Example) -> None:
    if example.value["type"] in REQUEST_TAGS:
        request, flaws = decode_request(example.frame)
        assert flaws == {}
        assert encode(request) == example.frame
    else:
        assert encode(decode_outgoing(example.frame)) == example.frame


def test_every_message_has_a_section_with_an_example_of_it() -> None:
    shown = {(example.section, example.value["type"]) for example in EXAMPLES}
    tags = {tag_of(kind) for kind in REQUESTS + REPLIES + UNASKED}

    assert shown == {(tag, tag) for tag in tags}


def undocumented(kind: type[Struct], section: str, common: type[Struct] | None = None) -> list[str]:
    """Fields that no table of the section lists with their defaults."""
    documented = {(row.field, repr(DEFAULTS[row.default])) for row in rows(section) if row.default in DEFAULTS}
    return [name for name, default in defaults_of(kind, common).items() if (name, repr(default)) not in documented]


@pytest.mark.parametrize("kind", REQUESTS)
def test_every_field_of_a_request_is_documented_with_its_default(kind: type[Struct]) -> None:
    assert undocumented(kind, tag_of(kind), Request) == []


@pytest.mark.parametrize("kind", REPLIES)
def test_every_field_of_a_reply_is_documented_with_its_default(kind: type[Struct]) -> None:
    assert undocumented(kind, tag_of(kind), Reply) == []


@pytest.mark.parametrize("kind", PARTS)
def test_every_field_of_a_part_is_documented_with_its_default(kind: type[Struct]) -> None:
    assert undocumented(kind, PARTS[kind]) == []


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_section_of_a_request_names_the_reply_that_its_base_declares(kind: type[Struct]) -> None:
    named = re.search(r"nswered\b[^`]*`([a-z-]+)`", SECTIONS[tag_of(kind)])

    assert named is not None
    assert named[1] == tag_of(REPLY_TO[kind])


@pytest.mark.parametrize(
    ("kind", "section"),
    [(Request, "Requests"), (Reply, "Replies"), (Select, "select"), (HelloWanted, "hello-wanted")],
)
def test_what_all_messages_share_is_documented(kind: type[Struct], section: str) -> None:
    assert {row.field for row in rows(section)} >= {"type", *kind.__struct_fields__}


@pytest.mark.parametrize("kind", [TaskCounts, EventTotals])
def test_every_count_is_named(kind: type[Struct]) -> None:
    for name in kind.__struct_fields__:
        assert f"`{name}`" in SECTIONS["status-reply"]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("new-task-reply", get_args(choices.PushOutcome)),
        ("done", get_args(choices.ErrorKind)),
        ("done-reply", get_args(tasks.ReportOutcome)),
        ("status-reply", get_args(choices.ProjectState)),
        ("status", get_args(choices.ProjectSort)),
        ("fetchers", get_args(choices.FetcherSort)),
        ("project-do", get_args(values.Action)),
        ("bulk", get_args(values.BulkAction)),
        ("bulk", get_args(choices.TaskState)),
        ("task-list", get_args(choices.TaskState)),
        ("stats-history", get_args(choices.Resolution)),
        ("task-reply", get_args(choices.TaskState)),
        ("failures", get_args(choices.FailuresBy)),
        ("task-reply", get_args(choices.AttemptOutcome)),
        ("flow-reply", get_args(choices.FlowState)),
        ("slot-list", get_args(choices.SlotSort)),
        ("slot-list-reply", get_args(choices.SlotPlace)),
        ("flow-tasks-reply", get_args(choices.FlowTaskState)),
    ],
)
def test_every_word_of_a_choice_is_documented(section: str, words: tuple[str, ...]) -> None:
    for value in words:
        assert f"`{value}`" in SECTIONS[section]


MODULES = (fields, values, base, tasks, fetchers, slots, projects, flows, operations, insight, daemon, messages)


def test_no_part_of_a_message_was_forgotten_here() -> None:
    everything = [value for module in MODULES for value in vars(module).values()]
    structs = {kind for kind in everything if isinstance(kind, type) and issubclass(kind, Struct)}
    inside = {messages.Incoming, messages.Outgoing, values.OperationFields, tasks.Parent}
    given = {base for kind in REPLIES for base in kind.__mro__[1:]}  # what users get of them

    whole = {Struct, Request, WaitingRequest, ChangeRequest, Reply, *REQUESTS, *REPLIES, *UNASKED}
    assert structs - whole - given - {TaskCounts, EventTotals} - inside == set(PARTS)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MAX_TASKID_BYTES", "1 to 128 bytes"),
        ("MAX_URL_CHARS", "| `url` | 8,192 characters |"),
        ("MAX_ERROR_CHARS", "| `error` | 2,048 characters |"),
        ("MAX_SLOT_CHARS", "| `slot` | 253 characters |"),
        ("MAX_VALIDATOR_CHARS", "| `etag`, `last_modified`, `content_hash` | 256 characters |"),
        ("MAX_RETRY_AFTER_SECONDS", "number to 86,400"),
        ("MAX_CAPACITY", "| `capacity`, `holds` | 100,000 |"),
        ("MAX_BATCH", "| `tasks`, `tokens`, `taskids` of one message | 10,000 |"),
        ("PROTOCOL", "Version **1**"),
    ],
)
def test_every_limit_is_documented(name: str, said: str) -> None:
    assert said in PAGE
    assert f"{getattr(fields, name):,.0f}" in said


def test_what_may_be_repeated_for_ever_is_named_and_nothing_else_is() -> None:
    named = re.search(r"requests that only read \((.*?)\)", SECTIONS["Numbers"], flags=re.S)

    assert named is not None
    reads = {tag_of(kind) for kind, rule in RULES.items() if not rule.keeps}
    assert {"hello", *re.findall(r"`([a-z-]+)`", named[1])} == reads


def test_what_waits_is_named_with_the_most_that_it_waits() -> None:
    waiting = {tag_of(kind) for kind in REQUESTS if issubclass(kind, WaitingRequest)}
    named = SECTIONS["Requests that wait"].partition(" may be answered later")[0]

    assert set(re.findall(r"`([a-z-]+)`", named)) == waiting
    assert f"| `seconds` of a request that waits | {fields.WAIT_MOST_SECONDS:g} |" in PAGE


def test_the_attempt_in_a_list_has_the_order_of_the_table() -> None:
    listed = [row.field for row in rows("task-reply")]

    assert listed[-len(Attempt.__struct_fields__) :] == list(Attempt.__struct_fields__)


def test_the_canonical_url_of_the_page_is_what_the_client_makes() -> None:
    shown = re.search(r"`(\S+)` is `(\S+)`\.\s*$", SECTIONS["Canonical urls"])

    assert shown is not None
    assert canonical_url(shown[1]) == shown[2]


def test_every_error_code_is_documented() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for part in ("core", "protocol", "server")
        for path in (ROOT / "taskqueue" / part).rglob("*.py")
    )
    used = set(re.findall(r'Rejected\(\s*"([a-z-]+)"|code="([a-z-]+)"', source))
    codes = {code or other for code, other in used}

    assert codes == set(re.findall(r"^\| `([a-z-]+)` \|", SECTIONS["error"], flags=re.M)) - {"code", "reason"}


def test_the_default_taskids_are_those_of_the_table() -> None:
    table = re.findall(
        r"^\| `(.*?)` \| ?`?(.*?)`? ?\| ?`?(.*?)`? ?\| `(.*?)` \| `([0-9a-f]{32})` \|$", PAGE, flags=re.M
    )

    assert len(table) == 2
    for url, method, data, hashed, taskid in table:
        assert md5(hashed.replace("\\n", "\n").encode()).hexdigest() == taskid
        assert default_taskid(url, {"method": method, "data": data}) == taskid
