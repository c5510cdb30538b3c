"""The pages of the protocol say what the code does.

docs/reference/messages.md is made of the types of messages. The tests read it as a client in another language would:
they decode its examples with the plain msgpack package, and with our own codec, both ways. docs/reference/protocol.md,
which is written by hand, must name what the code declares.
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
    exports,
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
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.fetchers import HelloWanted, Select
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.messages import OUTGOING, REPLY_TO, REQUESTS
from taskqueue.protocol.values import Attempt
from tools.messages import page

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PROTOCOL = (REFERENCE / "protocol.md").read_text(encoding="utf-8")
MESSAGES = (REFERENCE / "messages.md").read_text(encoding="utf-8")

UNASKED: tuple[type[Struct], ...] = (Select, HelloWanted)
REPLIES: tuple[type[Struct], ...] = tuple(kind for kind in OUTGOING if kind not in UNASKED)

MODULES = (
    fields,
    values,
    base,
    tasks,
    fetchers,
    slots,
    projects,
    exports,
    flows,
    operations,
    insight,
    daemon,
    messages,
)


def parts() -> set[type[Struct]]:
    """Types of the values that messages consist of."""
    everything = [value for module in MODULES for value in vars(module).values()]
    structs = {kind for kind in everything if isinstance(kind, type) and issubclass(kind, Struct)}
    inside = {messages.Incoming, messages.Outgoing, values.OperationFields, tasks.Parent}
    given = {base for kind in REPLIES for base in kind.__mro__[1:]}  # what users get of them
    whole = {Struct, Request, WaitingRequest, ChangeRequest, Reply, *REQUESTS, *REPLIES, *UNASKED}
    return structs - whole - given - inside


PARTS = sorted(parts(), key=lambda kind: kind.__name__)


class Example(NamedTuple):
    """Message, the bytes beside it, and its section."""

    section: str
    value: dict[str, Any]
    frame: bytes


class Row(NamedTuple):
    """Row of a table: one field."""

    field: str
    type: str
    default: str
    meaning: str


def sections(text: str) -> dict[str, str]:
    """The text under each heading."""
    parts = re.split(r"^#{1,3} (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


RULES_OF = sections(PROTOCOL)
FIELDS_OF = sections(MESSAGES)


def examples() -> Iterator[Example]:
    for section, text in FIELDS_OF.items():
        for value, octets in re.findall(r"```json\n(.*?)```.*?```text\n(.*?)```", text, flags=re.S):
            yield Example(section, json.loads(value), bytes.fromhex(octets))


SHOWN = list(examples())


def rows(section: str) -> list[Row]:
    """The fields in the table of a section."""
    found = re.findall(r"^\| `(\w+)` \| (.*?) \| ?(.*?) \| ?(.*?) ?\|$", section, flags=re.M)
    return [Row(*cells) for cells in found]


def tag_of(kind: type[Struct]) -> str:
    tag = kind.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


REQUEST_TAGS = {tag_of(kind) for kind in REQUESTS}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """The default as a reader of the page writes it; NODEFAULT if the field is required."""
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if value is NIL:
        return None
    if isinstance(value, tuple):
        return list(value)
    return {} if isinstance(value, Struct) else value


def shortest(frame: bytes) -> bytes:
    """The frame with the length of each short map in one byte.

    The codec writes the length in two bytes if the type of the map may have more than 15 fields.
    """
    return re.sub(rb"\xde\x00([\x00-\x0f])", lambda found: bytes([0x80 | found[1][0]]), frame)


@pytest.mark.parametrize("example", SHOWN, ids=lambda example: example.section)
def test_the_bytes_of_an_example_are_its_message_in_plain_msgpack(example: Example) -> None:
    assert msgpack.unpackb(example.frame) == example.value
    assert shortest(example.frame) == shortest(msgpack.packb(example.value))


@pytest.mark.parametrize("example", SHOWN, ids=lambda example: example.section)
def test_the_codec_reads_and_writes_an_example_byte_for_byte(example: Example) -> None:
    if example.value["type"] in REQUEST_TAGS:
        request, flaws = decode_request(example.frame)
        assert flaws == {}
        assert encode(request) == example.frame
    else:
        assert encode(decode_outgoing(example.frame)) == example.frame


def test_the_page_of_messages_is_up_to_date() -> None:
    assert page() == MESSAGES, "run: make messages"


def test_every_message_has_a_section_with_an_example_of_it() -> None:
    shown = {(example.section, example.value["type"]) for example in SHOWN}
    tags = {tag_of(kind) for kind in REQUESTS + REPLIES + UNASKED}

    assert shown == {(tag, tag) for tag in tags}
    assert set(EXAMPLES) == {*REQUESTS, *REPLIES, *UNASKED}


def check_fields(kind: type[Struct], section: str, envelope: tuple[str, ...]) -> None:
    """Compare the table of a section with the fields that the type has besides those of the envelope."""
    expected = [field for field in msgspec.structs.fields(kind) if field.name not in envelope]
    listed = rows(FIELDS_OF[section])

    assert [row.field for row in listed] == [field.encode_name for field in expected]
    assert [row.field for row in listed if not row.meaning] == []
    for row, field in zip(listed, expected, strict=True):
        written = row.default.strip("`").replace("nil", "null")
        assert (json.loads(written) if written else NODEFAULT) == default_of(field)


@pytest.mark.parametrize("kind", REQUESTS)
def test_every_field_of_a_request_is_documented_with_its_default(kind: type[Struct]) -> None:
    check_fields(kind, tag_of(kind), Request.__struct_fields__)


@pytest.mark.parametrize("kind", REPLIES)
def test_every_field_of_a_reply_is_documented_with_its_default(kind: type[Struct]) -> None:
    check_fields(kind, tag_of(kind), Reply.__struct_fields__)


@pytest.mark.parametrize("kind", UNASKED)
def test_every_field_of_an_unasked_message_is_documented_with_its_default(kind: type[Struct]) -> None:
    check_fields(kind, tag_of(kind), ())


@pytest.mark.parametrize("kind", PARTS)
def test_every_field_of_a_part_is_documented_with_its_default(kind: type[Struct]) -> None:
    check_fields(kind, kind.__name__.removeprefix("Packed"), ())


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_section_of_a_request_names_the_reply_that_its_base_declares(kind: type[Struct]) -> None:
    named = re.search(r"Answered by \[`([a-z-]+)`\]", FIELDS_OF[tag_of(kind)])

    assert named is not None
    assert named[1] == tag_of(REPLY_TO[kind])


def test_rules_are_about_messages_that_exist() -> None:
    titled = set(re.findall(r"^### ([a-z]+(?:-[a-z]+)*)$", PROTOCOL, flags=re.M))

    assert titled <= {tag_of(kind) for kind in (*REQUESTS, *UNASKED)} | {"error"}


@pytest.mark.parametrize("kind", [Request, Reply])
def test_the_envelope_is_documented(kind: type[Struct]) -> None:
    assert {row.field for row in rows(RULES_OF["Envelope"])} >= {"type", *kind.__struct_encode_fields__}


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("new-task", get_args(choices.PushOutcome)),
        ("new-task", get_args(choices.ParentFailure)),
        ("done", get_args(choices.ErrorKind)),
        ("done", get_args(tasks.ReportOutcome)),
        ("project-do", get_args(choices.ProjectState)),
        ("project-do", get_args(values.Action)),
        ("status", get_args(choices.ProjectSort)),
        ("status", get_args(choices.RemainingReason)[1:]),
        ("fetchers", get_args(choices.FetcherSort)),
        ("fetcher-do", get_args(fetchers.FetcherAction)),
        ("bulk", get_args(values.BulkAction)),
        ("rerun", get_args(choices.RerunScope)),
        ("Tasks", get_args(choices.TaskState)),
        ("task-show", get_args(choices.AttemptOutcome)),
        ("task-retry", get_args(tasks.TaskOutcome)),
        ("failures", get_args(choices.FailuresBy)),
        ("flow-show", get_args(choices.FlowState)),
        ("slot-list", get_args(choices.SlotSort)),
        ("slot-list", get_args(choices.SlotPlace)),
        ("why", get_args(choices.WhyCause)[1:]),
    ],
)
def test_every_word_of_a_choice_is_explained(section: str, words: tuple[str, ...]) -> None:
    for value in words:
        assert f"`{value}`" in RULES_OF[section]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MAX_URL_CHARS", "| `url` | 8,192 characters |"),
        ("MAX_ERROR_CHARS", "| `error` | 2,048 characters |"),
        ("MAX_SLOT_CHARS", "| `slot` | 253 characters |"),
        ("MAX_VALIDATOR_CHARS", "| `etag`, `last_modified`, `content_hash` | 256 characters |"),
        ("MAX_KIND_CHARS", "| `kind` | 200 characters |"),
        ("MAX_RESULT_BYTES", "| `result` | 65,536 bytes |"),
        ("MAX_CAPACITY", "| `capacity`, `holds` | 100,000 |"),
        ("MAX_BATCH", "| `tasks`, `tokens`, `taskids` of one message | 10,000 |"),
        ("PROTOCOL", "version **1**"),
    ],
)
def test_every_limit_is_documented(name: str, said: str) -> None:
    assert said in PROTOCOL
    assert f"{getattr(fields, name):,.0f}" in said


def test_what_may_be_repeated_for_ever_is_named_and_nothing_else_is() -> None:
    named = re.search(r"requests that only read \((.*?)\)", RULES_OF["Numbers and repeats"], flags=re.S)

    assert named is not None
    reads = {tag_of(kind) for kind, rule in RULES.items() if not rule.keeps}
    assert {"hello", "note", *re.findall(r"`([a-z-]+)`", named[1])} == reads


def test_what_waits_is_named_with_the_most_that_it_waits() -> None:
    waiting = {tag_of(kind) for kind in REQUESTS if issubclass(kind, WaitingRequest)}
    named = RULES_OF["Requests that wait"].partition(" may be answered later")[0]

    assert set(re.findall(r"`([a-z-]+)`", named)) == waiting
    assert f"| `seconds` of a request that waits | {fields.WAIT_MOST_SECONDS:g} |" in PROTOCOL


def test_the_attempt_in_a_list_has_the_order_of_the_table() -> None:
    assert [row.field for row in rows(FIELDS_OF["Attempt"])] == list(Attempt.__struct_fields__)
    assert "in this order" in FIELDS_OF["Attempt"]


def test_the_canonical_url_of_the_page_is_what_the_client_makes() -> None:
    shown = re.search(r"`(\S+)` is `(\S+)`\.\s*$", RULES_OF["Canonical URLs"])

    assert shown is not None
    assert canonical_url(shown[1]) == shown[2]


def test_every_error_code_is_documented() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for part in ("core", "protocol", "server")
        for path in (ROOT / "taskqueue" / part).rglob("*.py")
    )
    used = set(re.findall(r'(?:Rejected\(\s*|_refuse\(turn, incoming, |code=)"([a-z-]+)"', source))

    assert used == set(re.findall(r"^\| `([a-z-]+)` \|", RULES_OF["error"], flags=re.M)) - {"code", "reason"}


def test_the_default_taskids_are_those_of_the_table() -> None:
    table = re.findall(
        r"^\| `(.*?)` \| ?`?(.*?)`? ?\| ?`?(.*?)`? ?\| `(.*?)` \| `([0-9a-f]{32})` \|$", PROTOCOL, flags=re.M
    )

    assert len(table) == 2
    for url, method, data, hashed, taskid in table:
        assert md5(hashed.replace("\\n", "\n").encode()).hexdigest() == taskid
        assert default_taskid(url, {"method": method, "data": data}) == taskid
