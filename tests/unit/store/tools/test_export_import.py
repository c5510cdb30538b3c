"""An export of one store, imported into another, is the same crawl, and the import can be repeated."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from taskqueue.calendar import Calendar
from taskqueue.core.model.task import DELAYED, FAILED, READY, ready_key, time_key
from taskqueue.errors import StoreError, Unreadable
from taskqueue.protocol.packed_json import as_json, as_msgpack
from taskqueue.store.contract import Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.export_format import JSON, MESSAGEPACK, ExportFormat, detect_format
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.importer import BATCH_TASKS, BadLine, ImportCounts, KnownTasks, import_lines
from taskqueue.store.tools.store_stats import project_records
from tests.memory_store import Disk, MemoryStore
from tests.unit.store.conftest import Crawl, exported, lines_of

FIRST = b'{"taskqueue":1,"projects":[{"name":"news"}]}'


@pytest.fixture
def other() -> Disk:
    """Make an empty disk in memory, for a second move."""
    return Disk()


def tasks(lines: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """Return the tasks of an export, by taskid."""
    rows = [json.loads(line) for line in lines]
    return {row["taskid"]: row for row in rows if "taskid" in row}


def bring(
    store: Store, lines: Iterable[bytes], known: KnownTasks = "refuse", form: ExportFormat = JSON
) -> ImportCounts:
    return list(import_lines(store, lines, known, boot=7.0, environment=Calendar(), form=form))[-1]


def brought(
    disk: Disk, lines: Iterable[bytes], known: KnownTasks = "refuse", form: ExportFormat = JSON
) -> ImportCounts:
    with closing(MemoryStore(disk)) as store:
        return bring(store, lines, known, form)


def checked(disk: Disk) -> Findings:
    with closing(MemoryStore(disk)) as reader:
        return check(reader, Findings())


def many(count: int) -> list[bytes]:
    """Make an export of a number of ready tasks."""
    rows = ({"project": "news", "taskid": f"t{n}", "state": "ready", "url": "http://site/"} for n in range(count))
    return [FIRST, *(json.dumps(row).encode() for row in rows), b'{"tasks":%d}' % count]


# ------------------------------------------------------------------------------------------------ export


def test_the_first_line_names_the_projects_and_the_last_counts_the_tasks(crawl: Crawl) -> None:
    lines = exported(crawl.disk)

    first = json.loads(lines[0])
    assert first["taskqueue"] == 7
    assert [project["name"] for project in first["projects"]] == ["news", "empty"]
    assert first["projects"][0]["state"] == "paused"
    assert json.loads(lines[-1]) == {"tasks": 9}


def test_tasks_come_in_the_order_in_which_they_would_run(crawl: Crawl) -> None:
    assert list(tasks(exported(crawl.disk))) == [
        "leased", "unlisted", "ready-1", "ready-2", "delayed", "ended", "failed", "cancelled", "bare",
    ]  # fmt: skip


def test_a_task_is_exported_as_it_is_now(crawl: Crawl) -> None:
    row = tasks(exported(crawl.disk))["failed"]

    assert (row["state"], row["retried"], row["ended_at"], row["itag"]) == ("failed", 3, 1.6e9, "v1")
    assert row["job"] == "monday"
    assert (row["url"], row["lastcrawltime"], row["held_back"]) == ("http://site/failed", 1.5e9, True)
    assert "exetime" not in row


def test_a_result_is_exported_with_its_task(crawl: Crawl) -> None:
    rows = tasks(exported(crawl.disk))

    assert {taskid: row["result"] for taskid, row in rows.items() if "result" in row} == {
        "ended": {"$msgpack": "gaFyxAFi"},
        "leased": 7,
    }


def test_a_result_that_is_missing_ends_an_export(crawl: Crawl) -> None:
    crawl.delete(layout.RESULTS, layout.id_key(1, "ended"))

    with pytest.raises(Unreadable, match=r"results.*it is missing"):
        exported(crawl.disk)


def test_only_the_states_that_are_asked_for_are_exported(crawl: Crawl) -> None:
    assert list(tasks(exported(crawl.disk, states=[FAILED, DELAYED]))) == ["delayed", "failed"]


NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats()
KEYS = st.text(max_size=9) | st.integers(0, 9)
BODIES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
)


@given(BODIES)
def test_every_body_comes_back_byte_by_byte(body: object) -> None:
    packed = msgpack.packb(body)

    assert bytes(as_msgpack(as_json(packed))) == packed


@pytest.mark.parametrize(
    "packed",
    [
        b"\xcd\x00\x01", b"\xa1\xff", b"\xcaA\x20\x00\x00", b"\xd4\x05x", b"\x82\xa1a\x01\xa1a\x02",
        msgpack.packb({"$msgpack": "gQEC"}), msgpack.packb([{"$msgpack": 1}]), msgpack.packb({1: 2}),
        b"\x91" * 900 + b"\xc0",
    ],
)  # fmt: skip
def test_even_a_body_in_a_form_that_json_knows_nothing_of_comes_back(packed: bytes) -> None:
    assert bytes(as_msgpack(as_json(packed))) == packed


def test_a_plain_body_is_plain_json() -> None:
    assert as_json(msgpack.packb({"fetch": {"method": "GET"}, "n": 1.5})) == Raw(b'{"fetch":{"method":"GET"},"n":1.5}')


def test_the_secret_of_a_store_is_not_exported(crawl: Crawl, new: Disk) -> None:
    secrets = []
    for disk in (crawl.disk, new):
        with closing(MemoryStore(disk)) as store:
            secrets.append(Ledger(store).begin("boot").secret)
    before, own = secrets

    for form in (JSON, MESSAGEPACK):
        assert not any(before in line or before.hex().encode() in line for line in exported(crawl.disk, form=form))
    brought(new, exported(crawl.disk))

    with closing(MemoryStore(new)) as store:
        assert Ledger(store).begin("boot").secret == own != before


# ------------------------------------------------------------------------------------------------ import


def test_a_crawl_that_is_moved_is_the_same_crawl(crawl: Crawl, new: Disk) -> None:
    lines = exported(crawl.disk)

    assert brought(new, lines) == ImportCounts(projects=2, new=9)

    assert checked(new).problems == []
    before, after = tasks(lines), tasks(exported(new))
    for taskid in ("leased", "unlisted"):
        assert before.pop(taskid)["state"] == "processing"
        assert after.pop(taskid)["state"] == "ready"
    assert after == before


def test_stores_on_disk_are_exported_and_brought_in_as_those_in_memory(
    crawl: Crawl, stored: Crawl, new: Disk, tmp_path: Path
) -> None:
    with closing(ReadOnlyStore(stored.path)) as reader:
        lines = lines_of(reader)
    with closing(RocksStore(tmp_path / "new")) as store:
        counts = bring(store, lines)

    assert lines == exported(crawl.disk)
    assert counts == brought(new, lines)
    with closing(ReadOnlyStore(str(tmp_path / "new"))) as reader:
        assert lines_of(reader) == exported(new)
        assert check(reader, Findings()).problems == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"state": "success", "bare": True, "result": 1}, "line 2: a bare task can't have a result"),
        ({"state": "success", "result": "x" * 65_536}, "line 2: result: 65,541 bytes; at most 65,536 are allowed"),
        ({"state": "success", "result": {"$msgpack": "gQ=="}}, "line 2: .*not a MessagePack value"),
    ],
)
def test_a_result_that_no_task_can_have_is_refused(new: Disk, more: dict[str, object], says: str) -> None:
    row = {"project": "news", "taskid": "a", "url": "http://site/"} | more

    with pytest.raises(BadLine, match=says):
        brought(new, [FIRST, json.dumps(row).encode(), b'{"tasks":1}'])


def test_a_store_that_was_moved_once_is_moved_again_line_by_line(crawl: Crawl, new: Disk, other: Disk) -> None:
    brought(other, exported(crawl.disk))

    brought(new, exported(other))

    assert exported(new) == exported(other)


def test_an_unlimited_rate_is_exported_in_words_that_people_read(crawl: Crawl) -> None:
    [news, _] = json.loads(exported(crawl.disk)[0])["projects"]

    assert news["overrides"] == {"rate": "inf"}


def test_a_setting_that_is_a_text_stays_one_whatever_it_says(new: Disk) -> None:
    overrides = {"max_queue": "inf", "group": "inf", "fetch": {"proxy": "inf"}}
    first = {"taskqueue": 1, "projects": [{"name": "news", "overrides": overrides}]}

    brought(new, [json.dumps(first).encode(), b'{"tasks":0}'])

    with closing(MemoryStore(new)) as reader:
        [news] = project_records(reader)
    assert news.overrides == overrides | {"max_queue": inf}
    assert json.loads(exported(new)[0])["projects"][0]["overrides"] == overrides


def test_a_new_project_gets_its_settings_its_state_and_its_counts(crawl: Crawl, new: Disk) -> None:
    brought(new, exported(crawl.disk))

    with closing(MemoryStore(new)) as reader:
        news = next(record for record in project_records(reader) if record.name == "news")
    was = crawl.project()
    assert (news.state, news.overrides, news.totals) == (was.state, was.overrides, was.totals)
    assert (news.unfinished, news.armed) == (5, True)
    assert (news.counts.ready, news.counts.success, news.counts.processing) == (4, 2, 0)
    assert (news.bucket_level, news.bucket_at) == (0.0, 7.0)


def test_what_was_deferred_takes_effect_when_it_is_moved(crawl: Crawl, new: Disk) -> None:
    brought(new, exported(crawl.disk))

    row = tasks(exported(new))["leased"]
    assert (row["url"], row["priority"], "deferred" in row) == ("http://site/other", 9, False)


@pytest.mark.parametrize("form", [JSON, MESSAGEPACK])
def test_what_is_known_of_a_page_is_moved_with_its_task(new: Disk, other: Disk, form: ExportFormat) -> None:
    row = {
        "project": "news", "taskid": "a", "state": "delayed", "exetime": 1.8e9, "held_back": True,
        "url": "http://site/", "schedule": {"recrawl": {"min": 3600.0, "max": 86400.0}},
        "page": [7200.0, '"1"', "", "d2e3"],
    }  # fmt: skip
    brought(other, [FIRST, json.dumps(row).encode(), b'{"tasks":1}'])

    brought(new, exported(other, form=form), form=form)

    assert tasks(exported(new))["a"] == row


@pytest.mark.parametrize("form", [JSON, MESSAGEPACK])
@pytest.mark.parametrize(
    "state",
    [{"state": "ready", "url": "http://site/", "schedule": {}}, {"state": "success", "ended_at": 1.7e9, "bare": True}],
)
def test_when_a_task_first_came_is_moved_with_it(
    new: Disk, other: Disk, form: ExportFormat, state: dict[str, object]
) -> None:
    row = {"project": "news", "taskid": "a", "pushed_at": 1_600_000_000} | state
    brought(other, [FIRST, json.dumps(row).encode(), b'{"tasks":1}'])

    brought(new, exported(other, form=form), form=form)

    assert tasks(exported(new))["a"] == row


@pytest.mark.parametrize(("url", "page"), [("http://site/", [7200.0, "", "", ""]), ("http://other/", None)])
def test_what_was_deferred_keeps_the_interval_of_the_same_page(new: Disk, url: str, page: list[object] | None) -> None:
    schedule = {"recrawl": {"min": 3600.0, "max": 86400.0}}
    row = {
        "project": "news", "taskid": "a", "state": "processing", "url": "http://site/", "schedule": schedule,
        "page": [7200.0, '"1"', "", "d2e3"], "deferred": {"url": url, "schedule": schedule | {"force_update": True}},
    }  # fmt: skip
    brought(new, [FIRST, json.dumps(row).encode(), b'{"tasks":1}'])

    assert tasks(exported(new))["a"].get("page") == page


def test_tasks_that_are_equal_stay_first_in_first_out(new: Disk) -> None:
    brought(new, many(20))

    assert list(tasks(exported(new))) == [f"t{n}" for n in range(20)]


def test_a_project_that_has_tasks_is_refused_and_nothing_is_brought_in(crawl: Crawl) -> None:
    with pytest.raises(StoreError, match='"news" has tasks already; use --merge'):
        brought(crawl.disk, many(1))

    assert len(tasks(exported(crawl.disk))) == 9


def test_tasks_that_are_known_stay_as_they_are(crawl: Crawl) -> None:
    lines = many(3)
    row = {"project": "news", "taskid": "failed", "state": "ready", "url": "http://site/again"}
    lines[1] = json.dumps(row).encode()

    assert brought(crawl.disk, lines, "skip") == ImportCounts(new=2, known=1)

    assert crawl.check().problems == []
    assert tasks(exported(crawl.disk))["failed"]["url"] == "http://site/failed"
    assert crawl.project().state == "paused"


@pytest.mark.parametrize(("held_back", "after"), [(None, None), (0, 1)])
def test_retries_of_an_older_store_stay_to_be_counted(crawl: Crawl, held_back: int | None, after: int | None) -> None:
    record = crawl.project()
    record.held_back = held_back
    crawl.put(layout.PROJECTS, layout.project_key(record.number), layout.encode(record))
    lines = many(1)
    row = {"project": "news", "taskid": "late", "state": "delayed", "exetime": 1.8e9, "held_back": True}
    lines[1] = json.dumps(row | {"url": "http://site/"}).encode()

    brought(crawl.disk, lines, "skip")

    assert crawl.project().held_back == after


@pytest.mark.parametrize("taskid", ["leased", "unlisted"])
def test_a_task_that_is_processing_is_known_whether_it_has_a_record_or_not(crawl: Crawl, taskid: str) -> None:
    lines = many(1)
    lines[1] = json.dumps({"project": "news", "taskid": taskid, "state": "ready", "url": "http://site/"}).encode()

    assert brought(crawl.disk, lines, "skip") == ImportCounts(known=1)

    assert crawl.check().problems == []


def test_what_goes_before_all_that_was_there_is_found_by_the_scheduler(crawl: Crawl) -> None:
    record = crawl.project()
    record.ready_low = ready_key(5, 1).to_bytes(16, "big")
    record.delayed_low = time_key(1.9e9, 1).to_bytes(16, "big")
    crawl.put(layout.PROJECTS, layout.project_key(record.number), layout.encode(record))
    lines = many(2)
    row = {"project": "news", "url": "http://site/", "priority": 9, "exetime": 1.8e9}
    lines[1:3] = [
        json.dumps(row | {"taskid": f"first-{state}", "state": state}).encode() for state in ("ready", "delayed")
    ]

    assert brought(crawl.disk, lines, "skip").new == 2

    assert crawl.check().problems == []


def test_what_clear_has_left_of_a_task_gives_way_to_it(crawl: Crawl) -> None:
    lines = many(1)
    row = {"project": "news", "taskid": "left", "state": "delayed", "exetime": 2e9, "url": "http://site/"}
    lines[1] = json.dumps(row).encode()

    assert brought(crawl.disk, lines, "skip").new == 1

    assert crawl.check().problems == []
    assert tasks(exported(crawl.disk))["left"]["state"] == "delayed"


def test_an_import_that_was_cut_off_leaves_a_sound_store_and_is_completed_by_another(new: Disk) -> None:
    lines = many(3 * BATCH_TASKS)

    with closing(MemoryStore(new)) as store:
        steps = import_lines(store, lines, "refuse", boot=7.0, environment=Calendar())
        assert [next(steps).new for _ in range(3)][-1] == 2 * BATCH_TASKS

    assert checked(new).problems == []
    assert brought(new, lines, "skip") == ImportCounts(new=BATCH_TASKS, known=2 * BATCH_TASKS)
    assert checked(new).problems == []
    assert len(tasks(exported(new, states=[READY]))) == 3 * BATCH_TASKS


def test_a_task_that_comes_twice_is_brought_in_once(new: Disk) -> None:
    lines = many(2)
    lines[2] = lines[1]

    assert brought(new, lines) == ImportCounts(projects=1, new=1, known=1)
    assert checked(new).problems == []


def test_lines_without_their_last_one_are_told_from_whole_ones(new: Disk) -> None:
    with pytest.raises(BadLine, match="end after 5 tasks, without their last line"):
        brought(new, many(5)[:-1])

    assert len(tasks(exported(new))) == 5


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"nonsense", "line 2: JSON is malformed"),
        (b'{"project":"news","taskid":"a","state":"flying"}', "line 2: state: 'flying' is none of blocked, "),
        (b'{"project":"news","taskid":"a","state":"ready"}', "line 2: there is no url"),
        (b'{"project":"news","taskid":"a","state":"ready","url":"u","extra":1}', "line 2: unknown field extra"),
        (b'{"project":"other","taskid":"a","state":"ready","url":"u"}', 'line 2: project "other" is not in the first'),
        (b'{"project":"news","taskid":"a","state":"ready","bare":true}', "line 2: a task that is ready can't be bare"),
        (
            b'{"project":"news","taskid":"a","state":"ready","url":"u","body":{"$msgpack":"x"}}',
            "line 2: \\$msgpack is not a MessagePack value in base64",
        ),
        (
            b'{"project":"news","taskid":"a","state":"ready","url":"u","body":1%s}' % (b"0" * 20),
            "line 2: can't serialize",
        ),
        (
            b'{"project":"news","taskid":"a","state":"ready","url":"u","body":%s}' % (b"[" * 9999),
            "line 2: nested too deep",
        ),
        (b'{"project":"news","taskid":"\xff","state":"ready","url":"u"}', "line 2: a string is not utf-8"),
        (b'{"tasks":7}', "line 2: expected 7 tasks, found 0"),
    ],
)
def test_a_line_that_is_none_is_named_by_its_number(new: Disk, line: bytes, says: str) -> None:
    with pytest.raises(BadLine, match=says):
        brought(new, [FIRST, line, b'{"tasks":1}'])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retried", -1),
        ("retried", 2**32),
        ("depth", -5),
        ("depth", 2**63),
        ("itag", "i" * 257),
        ("job", "no name"),
        ("url", "u" * 8193),
        ("ended_at", -1),
        ("taskid", "ü" * 65),
        ("deferred", {"url": ""}),
        ("page", [0.0]),
        ("page", [60.0, "e" * 257]),
    ],
)
def test_a_value_that_no_task_can_have_is_named_by_its_line(new: Disk, field: str, value: object) -> None:
    row = {"project": "news", "taskid": "a", "state": "failed", "url": "u"} | {field: value}

    with pytest.raises(BadLine, match=f"line 2: .*{field}"):
        brought(new, [FIRST, json.dumps(row).encode(), b'{"tasks":1}'])


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"rate": -1}, "rate must be a number of at least 0 or inf, not -1"),
        ({"colour": "red"}, "colour is not a setting"),
        ({"active": "always"}, "active: "),
        ({"cron": {"nightly": {"cron": "61 * * * *", "task": {"url": "http://site/"}}}}, "cron.nightly"),
        ({"fetch": {"headers": "x" * 70_000}}, "fetch: 70014 bytes, at most 65536 are taken in a setting"),
        ({"fetch": {"a": "x" * 60_000}, "on_finished": {"url": "u", "body": "x" * 60_000}}, ".* in all at most 65536"),
        ([1], "overrides: Expected `object | null`, got `array`"),
        ({"$msgpack": "x"}, "overrides: .*is not a MessagePack value in base64"),
        ({"$msgpack": "gQEC"}, "overrides: Expected `str`, got `int`"),
    ],
)
def test_settings_that_no_project_can_have_are_refused_and_nothing_is_brought_in(
    crawl: Crawl, overrides: object, says: str
) -> None:
    first = {"taskqueue": 1, "projects": [{"name": "shop"}, {"name": "bad", "overrides": overrides}]}

    with pytest.raises(BadLine, match=f'line 1: project "bad": {says}'):
        brought(crawl.disk, [json.dumps(first).encode(), b'{"tasks":0}'])

    with closing(MemoryStore(crawl.disk)) as reader:
        assert [record.name for record in project_records(reader)] == ["news", "empty"]


@pytest.mark.parametrize("field", [{"finished": 2**64}, {"totals": {"new": 2**64}}, {"pause": [2**64]}])
def test_numbers_that_no_store_can_keep_are_refused_and_nothing_is_brought_in(
    new: Disk, field: dict[str, object]
) -> None:
    first = {"taskqueue": 1, "projects": [{"name": "news"} | field]}

    with pytest.raises(BadLine, match=r"line 1: .*(expected a number from 0 to|expected int <= )"):
        brought(new, [json.dumps(first).encode(), b'{"tasks":0}'])

    with closing(MemoryStore(new)) as reader:
        assert project_records(reader) == []


def test_the_settings_of_a_project_that_is_there_already_do_not_matter(crawl: Crawl) -> None:
    first = {"taskqueue": 1, "projects": [{"name": "news", "overrides": {"rate": -1}}]}

    assert brought(crawl.disk, [json.dumps(first).encode(), b'{"tasks":0}'], "skip") == ImportCounts()

    assert crawl.project().overrides == {"rate": float("inf")}


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (b'{"url":"http://site/"}', "line 1: this is not the beginning of an export"),
        (b'{"taskqueue":9,"projects":[]}', "line 1: lines of version 9 can't be read here, only 1 to 7"),
    ],
)
def test_what_is_no_export_is_refused(new: Disk, first: bytes, says: str) -> None:
    with pytest.raises(BadLine, match=says):
        brought(new, [first])
    with pytest.raises(BadLine, match="line 1"):
        brought(new, [])


def test_bodies_and_settings_are_the_same_bytes(crawl: Crawl, new: Disk) -> None:
    brought(new, exported(crawl.disk))

    with closing(MemoryStore(new)) as reader:
        specs = [layout.decode_spec(value)[1] for _, value in reader.scan(layout.SPECS, b"", b"\xff", 100)]
    assert {bytes(spec.body) for spec in specs if spec.url != "http://site/other"} == {b"\x81\xa1a\xc4\x01b"}


# ------------------------------------------------------------------------------------------------ MessagePack


def test_both_forms_say_the_same(crawl: Crawl, new: Disk, other: Disk) -> None:
    brought(new, exported(crawl.disk, form=MESSAGEPACK), form=MESSAGEPACK)
    brought(other, exported(crawl.disk))

    assert checked(new).problems == []
    assert exported(new) == exported(other)
    assert exported(new, form=MESSAGEPACK) == exported(other, form=MESSAGEPACK)


def test_in_messagepack_a_body_is_written_as_the_bytes_that_it_is(new: Disk, other: Disk) -> None:
    odd = b"\x82\xa1a\xcd\x00\x01\x07\xc4\x02\xff\x00"
    lines = many(1)
    row = {
        "project": "news",
        "taskid": "a",
        "state": "ready",
        "url": "http://site/",
        "body": json.loads(bytes(as_json(odd))),
    }
    lines[1] = json.dumps(row).encode()
    brought(other, lines)

    written = exported(other, form=MESSAGEPACK)
    brought(new, written, form=MESSAGEPACK)

    assert odd in written[1]
    assert exported(new) == exported(other)


def test_the_parts_in_messagepack_are_the_maps_of_the_lines(crawl: Crawl) -> None:
    first, *_, last = exported(crawl.disk, form=MESSAGEPACK)

    assert [project["name"] for project in msgpack.unpackb(first)["projects"]] == ["news", "empty"]
    assert msgpack.unpackb(first)["projects"][0]["overrides"] == {"rate": inf}
    assert msgpack.unpackb(last) == {"tasks": 9}


def test_the_form_of_an_export_is_seen_in_its_first_byte(crawl: Crawl) -> None:
    assert detect_format(exported(crawl.disk, form=MESSAGEPACK)[0]) is MESSAGEPACK
    assert detect_format(exported(crawl.disk)[0]) is JSON
    assert detect_format(b"") is JSON


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (b"\x07", "map 2: expected map, got int"),
        (msgpack.packb({"project": "news", "taskid": "a", "state": "flying"}), "map 2: state: 'flying' is none of"),
        (msgpack.packb({"project": "other", "taskid": "a", "state": "ready", "url": "u"}), 'map 2: project "other" is'),
        (msgpack.packb({"tasks": 7}), "map 2: expected 7 tasks, found 0"),
    ],
)
def test_a_map_that_is_none_is_named_by_its_number(new: Disk, part: bytes, says: str) -> None:
    first = msgpack.packb({"taskqueue": 1, "projects": [{"name": "news"}]})

    with pytest.raises(BadLine, match=says):
        brought(new, [first, part], form=MESSAGEPACK)
