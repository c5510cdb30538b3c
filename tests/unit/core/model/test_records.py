"""Records in older stores and in replies: their bytes never change."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pytest
from msgspec import Raw, Struct
from msgspec.inspect import StructType, Type, type_info
from msgspec.msgpack import Decoder, decode, encode
from msgspec.structs import astuple

from taskqueue.core.model.attempt_records import Failure
from taskqueue.core.model.history import CountersRecord
from taskqueue.core.model.needs import ChangeRecord
from taskqueue.core.model.records import (
    BucketRecord,
    FlowRecord,
    ImportRecord,
    OperationProgress,
    OperationRecord,
    ProjectRecord,
    SessionRecord,
)
from taskqueue.core.model.rerun_set import RerunCursor, RerunMember
from taskqueue.core.model.slot_records import DivisionRecord, SlotRecord
from taskqueue.core.model.undo_rows import UndoCursor, UndoPage, UndoRow, UndoRows
from taskqueue.protocol.fields import Boot, Token
from taskqueue.protocol.values import (
    Attempt,
    Change,
    CronRecord,
    EventTotals,
    NewTask,
    Operation,
    PageFacts,
    PauseRecord,
    Recrawl,
    RerunLayer,
    RerunProgress,
    Schedule,
    TaskCounts,
    TaskFilter,
    TaskOf,
    UndoProgress,
)
from taskqueue.settings.slots import SlotChoice
from taskqueue.store import records
from taskqueue.store.records.stored_values import LeaseValue, SpecValue

PROJECT = ProjectRecord(
    7, "news", "paused", {"rate": 2.5}, TaskCounts(ready=3, failed=1), EventTotals(new=4, timeout=2), 1.5, 77.25
)
FILTER = TaskFilter(states=["failed"], url="*")
PROGRESS = OperationProgress(5, "retry", ["news"], False, 9, 4, 2, 1e9, group="g", filter=FILTER, priority=3)

RERUN = OperationProgress(
    6, "rerun", ["news"], True, 2, 2, 2, 1e9,
    rerun=RerunProgress("a", "downstream", layers=[RerunLayer(2, ["a", "b"])], depth=1),
)  # fmt: skip
DIVIDED = ProjectRecord(
    8, "shop", pause=PauseRecord(failures=2), cron={"night": CronRecord(1e9, "a", 3)},
    slots=DivisionRecord("host", 1, 5),
)  # fmt: skip
IMPORTING = ProjectRecord(
    9, "back", "paused", importing=ImportRecord("monday", 3, 77, True, "running", PauseRecord(failures=2), 1)
)
SCHEDULE = Schedule(priority=2, age=60.0, recrawl=Recrawl(60.0, 3600.0))
LOG = ChangeRecord(3, 1e9, "project set", "anna", project="news", detail="rate=5")
UNDO_ROW = UndoRow("a", 2, 3, 1, 0, 5.0, Token(9))

KEPT: list[tuple[Struct, str]] = [
    (
        PROJECT,
        "dc001907a46e657773a670617573656481a472617465cb400400000000000082a5726561647903a66661696c65640182a36e657704a7"
        "74696d656f757402cb3ff8000000000000cb4053500000000000c41000000000000000000000000000000000c4100000000000000000"
        "00000000000000009700cb00000000000000000000a000cb00000000000000000000c2008080a0c43000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000000000000000000000c2c080c0c2c0",
    ),
    (
        OperationRecord(PROGRESS, 8, 1, "a", "anna", "10.0.0.1", 2),
        "9ede000ba2696405a6616374696f6ea57265747279a870726f6a6563747391a46e657773a76472795f72756ec2a56b6e6f776e09a473"
        "6565"
        "6e04a76d61746368656402a8626567616e5f6174cb41cdcd6500000000a567726f7570a167a666696c74657282a673746174657391a6"
        "6661696c6564a375726ca12aa87072696f72697479030801a161a4616e6e61a831302e302e302e3102c09000a090c0c0",
    ),
    (
        Attempt(1e9, "failed", "f", 0.5, "404"),
        "96cb41cdcd6500000000a66661696c6564a166cb3fe0000000000000a3343034a0",
    ),
    (Attempt(1e9, "success"), "96cb41cdcd6500000000a773756363657373a0cb0000000000000000a0a0"),
    (
        LOG,
        "86a66e756d62657203a26174cb41cdcd6500000000a477686174ab70726f6a65637420736574a46e616d65a4616e6e61a770726f6a65"
        "6374a46e657773a664657461696ca6726174653d35",
    ),
    (
        DIVIDED,
        "dc001908a473686f70a772756e6e696e67808080cb0000000000000000cb0000000000000000c41000000000000000000000"
        "000000000000c410000000000000000000000000000000009702cb00000000000000000000a000cb00000000000000000000"
        "c2008081a56e6967687497cb41cdcd6500000000a161030090a0cb0000000000000000a0c4300000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000c297a4686f73740105c40cffffffffffffffffffffffffc200"
        "c280c0c2c0",
    ),
    (
        IMPORTING,
        "dc001909a46261636ba6706175736564808080cb0000000000000000cb0000000000000000c4100000000000000000000000"
        "0000000000c410000000000000000000000000000000009700cb00000000000000000000a000cb00000000000000000000c2"
        "008080a0c4300000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000c2c080c0c298a66d6f6e646179034dc3a772756e6e696e679702cb00000000000000000000a000cb000000000000"
        "00000180",
    ),
    (
        OperationRecord(RERUN, 8, cursor=RerunCursor("order", 2, b"a")),
        "9ede0009a2696406a6616374696f6ea5726572756ea870726f6a6563747391a46e657773a76472795f72756ec3a56b6e6f77"
        "6e02a47365656e02a76d61746368656402a8626567616e5f6174cb41cdcd6500000000a5726572756e84a67461736b6964a1"
        "61a573636f7065aa646f776e73747265616da66c61796572739182a57461736b7302a77461736b69647392a161a162a56465"
        "707468010800a0a0a00097a56f7264657202c401610000ff009000a090c0c0",
    ),
    (
        CountersRecord(5, 2, (1, 2, 3, 4, 5, 6), [7]),
        "9605029601020304050691079018",
    ),
    (
        SessionRecord("s", 1e9),
        "93a173cb41cdcd6500000000a0",
    ),
    (
        BucketRecord("shared", 2.5, 77.25),
        "93a6736861726564cb4004000000000000cb4053500000000000",
    ),
    (
        Failure(7, "a", "example.com", "f", "404"),
        "9507a161ab6578616d706c652e636f6da166a3343034",
    ),
    (
        SlotRecord("example.com", choice=SlotChoice(delay=2.0), level=1),
        "9dab6578616d706c652e636f6dcb000000000000000081a564656c6179cb4000000000000000cb000000000000000001cb00"
        "00000000000000cb0000000000000000cb000000000000000000000000c2",
    ),
    (
        FlowRecord(3, 7, "night", tasks=2),
        "dc00110307a56e696768740200cb0000000000000000cb0000000000000000cb0000000000000000c20000c2c200980000000000000000"
        "a0cb0000000000000000",
    ),
    (
        RerunMember(7, "a", True),
        "9507a161c30000",
    ),
    (
        LeaseValue(b"r", "a", "s", 4, Boot(77.25), Boot(70.0)),
        "98c40172a161a17304cb4053500000000000cb405180000000000000c0",
    ),
    (
        SpecValue("a", "https://example.com/", SCHEDULE, Raw(b"\xc0"), 1, PageFacts(60.0, "e")),
        "96a161b468747470733a2f2f6578616d706c652e636f6d2f83a87072696f7269747902a3616765cb404e000000000000a772"
        "65637261776c82a36d696ecb404e000000000000a36d6178cb40ac200000000000c00194cb404e000000000000a165a0a0",
    ),
    (
        UNDO_ROW,
        "98a16102030100cb40140000000000000900",
    ),
    (
        UndoPage(7, 1, Token(9), [UNDO_ROW]),
        "950701099198a16102030100cb4014000000000000090080",
    ),
    (
        UndoRows(7, 3, 1),
        "9607030100c40000",
    ),
    (
        UndoCursor(5, "cancel", 0, 0.0, 1e9, UndoRows(7, 3, 1)),
        "9805a663616e63656c00cb0000000000000000cb41cdcd65000000009607030100c4000000c0",
    ),
    (
        UndoProgress(5, "cancel", TaskCounts(ready=2), ran=1),
        "84a26f6605a6616374696f6ea663616e63656ca6636f756e747381a5726561647902a372616e01",
    ),
    (
        NewTask("a", "https://example.com/", depends_on=("b", TaskOf("shop", "c"))),
        "83a67461736b6964a161a375726cb468747470733a2f2f6578616d706c652e636f6d2faa646570656e64735f6f6e92a16292"
        "a473686f70a163",
    ),
]
"""Records, and the bytes that they have had since before they had types of their own."""


@pytest.mark.parametrize(("record", "written"), KEPT, ids=lambda each: type(each).__name__)
def test_a_record_has_the_bytes_that_it_always_had(record: Struct, written: str) -> None:
    assert encode(record).hex() == written
    assert decode(bytes.fromhex(written), type=type(record)) == record


def test_flows_and_cron_entries_from_before_entries_had_graphs_are_read() -> None:
    flow = "9f0307a56e696768740200cb0000000000000000cb0000000000000000cb0000000000000000c20000c2c200980000000000000000"

    assert decode(bytes.fromhex(flow), type=FlowRecord) == FlowRecord(3, 7, "night", tasks=2)
    assert decode(bytes.fromhex("94cb41cdcd6500000000a1610300"), type=CronRecord) == CronRecord(1e9, "a", 3)


def test_rows_and_cursors_of_undos_from_before_these_looked_at_parents_are_read() -> None:
    cursor = "9705a663616e63656c00cb0000000000000000cb41cdcd65000000009607030100c4000000"

    assert decode(bytes.fromhex("97a16102030100cb401400000000000009"), type=UndoRow) == UNDO_ROW
    assert decode(bytes.fromhex(cursor), type=UndoCursor).rows == UndoRows(7, 3, 1)


def test_a_page_of_rows_from_before_updates_were_kept_is_read() -> None:
    page = "940701099197a16102030100cb401400000000000009"

    assert decode(bytes.fromhex(page), type=UndoPage) == UndoPage(7, 1, Token(9), [UNDO_ROW])


def test_a_session_from_before_sessions_had_owners_is_read() -> None:
    assert decode(bytes.fromhex("92a173cb41cdcd6500000000"), type=SessionRecord) == SessionRecord("s", 1e9, "")


@pytest.mark.parametrize(
    ("fields", "cut"),
    [("dc0015", 8), ("dc0016", 6), ("dc0017", 4), ("dc0018", 2)],
    ids=["growing", "held_back", "newest", "importing"],
)
def test_a_project_from_before_it_had_its_last_fields_is_read(fields: str, cut: int) -> None:
    written = bytes.fromhex(fields + KEPT[0][1][6:-cut])

    assert decode(written, type=ProjectRecord) == PROJECT


def test_a_project_from_before_pauses_ended_by_themselves_is_read() -> None:
    written = KEPT[0][1].replace("9700cb00000000000000000000a000cb0000000000000000", "9600cb00000000000000000000a000")

    assert decode(bytes.fromhex(written), type=ProjectRecord) == PROJECT


@pytest.mark.parametrize(
    ("head", "cut"),
    [
        ("9cde000ba269", 4), ("9bde000ba269", 6), ("98de000ba269", 12), ("9c8ba269", 4), ("9b8ba269", 6),
        ("988ba269", 12),
    ],
)  # fmt: skip
def test_an_operation_from_before_it_had_its_last_fields_is_read(head: str, cut: int) -> None:
    record, written = KEPT[1]
    before = written.replace("9ede000ba269", head)

    assert decode(bytes.fromhex(before[: len(before) - cut]), type=OperationRecord) == record


def test_an_attempt_from_before_errors_had_kinds_is_read() -> None:
    written = bytes.fromhex("95cb41cdcd6500000000a66661696c6564a166cb3fe0000000000000a3343034")

    assert decode(written, type=Attempt) == Attempt(1e9, "failed", "f", 0.5, "404")


@pytest.mark.parametrize(
    ("view", "sent"),
    [
        (
            Operation(*astuple(OperationProgress(5, "retry", ["news"], False, 9, 4, 2, 1e9))),
            "de000ba2696405a6616374696f6ea57265747279a870726f6a6563747391a46e657773a76472795f72756ec2a56b6e6f"
            "776e09a47365656e04a76d61746368656402a8626567616e5f6174cb41cdcd6500000000a8656e6465645f6174cb0000"
            "000000000000a666696c74657280a5756e74696ccb0000000000000000",
        ),
        (
            Change(*astuple(LOG)[:-1]),
            "86a66e756d62657203a26174cb41cdcd6500000000a477686174ab70726f6a65637420736574a56163746f72a4616e6e"
            "61a770726f6a656374a46e657773a664657461696ca6726174653d35",
        ),
    ],
    ids=["operation", "log"],
)
def test_a_view_that_is_made_of_a_record_has_the_bytes_that_it_always_had(view: Struct, sent: str) -> None:
    assert encode(view).hex() == sent


def read_by(module: ModuleType) -> Iterator[Any]:
    """Yield the types that the decoders of a module read."""
    for value in vars(module).values():
        decoder = getattr(value, "__self__", None)
        if isinstance(decoder, Decoder):
            yield decoder.type


def structs_in(kind: Type) -> Iterator[type[Struct]]:
    """Yield the Structs in a type, itself included."""
    if isinstance(kind, StructType):
        yield kind.cls
        inside = [field.type for field in kind.fields]
    else:
        names = ("types", "item_types", "item_type", "key_type", "value_type")
        found = [getattr(kind, name) for name in names if hasattr(kind, name)]
        inside = [part for each in found for part in (each if isinstance(each, tuple) else [each])]
    for part in inside:
        yield from structs_in(part)


def structs_of(value: Any) -> Iterator[type[Struct]]:
    """Yield the Structs of a value, its own type included."""
    if isinstance(value, Struct):
        yield type(value)
    parts = astuple(value) if isinstance(value, Struct) else value.values() if isinstance(value, dict) else value
    if isinstance(parts, list | tuple) or isinstance(value, dict):
        for part in parts:
            yield from structs_of(part)


def test_each_struct_that_the_store_reads_has_its_bytes_written_down() -> None:
    names = [each.name for each in iter_modules(records.__path__) if each.name != "migrations"]
    modules = [import_module(f"{records.__name__}.{name}") for name in names]

    read = {each for module in modules for kind in read_by(module) for each in structs_in(type_info(kind))}

    assert read == {each for record, _ in KEPT for each in structs_of(record)}
