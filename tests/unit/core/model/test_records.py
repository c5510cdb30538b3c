"""Records are what older stores have: their bytes stay, and whoever is shown one sees the same fields."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.msgpack import decode, encode

from taskqueue.core.model.needs import ChangeRecord
from taskqueue.core.model.records import OperationProgress, OperationRecord, ProjectRecord
from taskqueue.protocol import values
from taskqueue.protocol.values import Attempt, Counts, TaskFilter, Totals

PROJECT = ProjectRecord(
    7, "news", "paused", {"rate": 2.5}, Counts(ready=3, failed=1), Totals(new=4, timeout=2), 1.5, 77.25
)
FILTER = TaskFilter(states=["failed"], url="*")
PROGRESS = OperationProgress(5, "retry", ["news"], False, 9, 4, 2, 1e9, group="g", filter=FILTER, priority=3)

KEPT: list[tuple[Struct, str]] = [
    (
        PROJECT,
        "dc001707a46e657773a670617573656481a472617465cb400400000000000082a5726561647903a66661696c65640182a36e657704a7"
        "74696d656f757402cb3ff8000000000000cb4053500000000000c41000000000000000000000000000000000c4100000000000000000"
        "00000000000000009700cb00000000000000000000a000cb00000000000000000000c2008080a0c43000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000000000000000000000c2c080c0",
    ),
    (
        OperationRecord(PROGRESS, 8, 1, "a", "anna", "10.0.0.1", 2),
        "9bde000ba2696405a6616374696f6ea57265747279a870726f6a6563747391a46e657773a76472795f72756ec2a56b6e6f776e09a473"
        "6565"
        "6e04a76d61746368656402a8626567616e5f6174cb41cdcd6500000000a567726f7570a167a666696c74657282a673746174657391a6"
        "6661696c6564a375726ca12aa87072696f72697479030801a161a4616e6e61a831302e302e302e3102c09000a0",
    ),
    (
        Attempt(1e9, "failed", "f", 0.5, "404"),
        "96cb41cdcd6500000000a66661696c6564a166cb3fe0000000000000a3343034a0",
    ),
    (Attempt(1e9, "success"), "96cb41cdcd6500000000a773756363657373a0cb0000000000000000a0a0"),
    (
        ChangeRecord(3, 1e9, "project set", "anna", project="news", detail="rate=5"),
        "86a66e756d62657203a26174cb41cdcd6500000000a477686174ab70726f6a65637420736574a46e616d65a4616e6e61a770726f6a65"
        "6374a46e657773a664657461696ca6726174653d35",
    ),
]
"""Records, and the bytes that they have had since before they had types of their own."""


@pytest.mark.parametrize(("record", "written"), KEPT, ids=lambda each: type(each).__name__)
def test_a_record_has_the_bytes_that_it_always_had(record: Struct, written: str) -> None:
    assert encode(record).hex() == written
    assert decode(bytes.fromhex(written), type=type(record)) == record


@pytest.mark.parametrize(("fields", "cut"), [("dc0015", 4), ("dc0016", 2)], ids=["growing", "held_back"])
def test_a_project_from_before_it_had_its_last_fields_is_read(fields: str, cut: int) -> None:
    written = bytes.fromhex(fields + KEPT[0][1][6:-cut])

    assert decode(written, type=ProjectRecord) == PROJECT


def test_a_project_from_before_pauses_ended_by_themselves_is_read() -> None:
    written = KEPT[0][1].replace("9700cb00000000000000000000a000cb0000000000000000", "9600cb00000000000000000000a000")

    assert decode(bytes.fromhex(written), type=ProjectRecord) == PROJECT


@pytest.mark.parametrize(("head", "cut"), [("98de000ba269", 6), ("9b8ba269", 0), ("988ba269", 6)])
def test_an_operation_from_before_the_log_told_of_it_or_pauses_ended_is_read(head: str, cut: int) -> None:
    record, written = KEPT[1]
    before = written.replace("9bde000ba269", head)

    assert decode(bytes.fromhex(before[: len(before) - cut]), type=OperationRecord) == record


def test_an_attempt_from_before_errors_had_kinds_is_read() -> None:
    written = bytes.fromhex("95cb41cdcd6500000000a66661696c6564a166cb3fe0000000000000a3343034")

    assert decode(written, type=Attempt) == Attempt(1e9, "failed", "f", 0.5, "404")


@pytest.mark.parametrize(
    ("record", "view"),
    [
        (ChangeRecord, values.LogEntry),
        (OperationProgress, values.OperationView),
    ],
)
def test_a_view_is_made_of_a_record_by_the_order_of_its_fields(record: type[Struct], view: type[Struct]) -> None:
    assert record.__struct_fields__ == view.__struct_fields__
