"""Tasks as users make and see them."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from hashlib import md5
from typing import Any

import msgpack
import pytest
from msgspec import Raw

from taskqueue import Task, canonical_url, default_taskid, new_task
from taskqueue.client.tasks.pushes import Defaults, Packer, Pushed, as_new_task
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment, Recrawl, Schedule


def body_of(task: Any) -> Any:
    return msgpack.unpackb(bytes(task.body))


def given(body: Any) -> Task:
    return Task(Assignment("p", "t", "http://a/", Token(1), 60.0, Raw(msgpack.packb(body))))


def test_the_default_taskid_is_the_md5_of_the_url_without_its_fragment() -> None:
    assert default_taskid("http://a/b?c#d") == md5(b"http://a/b?c").hexdigest()
    assert default_taskid("http://a/b?c") == default_taskid("http://a/b?c#")


def test_a_plain_get_by_any_other_name_is_the_same_task() -> None:
    plain = default_taskid("http://a/")

    assert default_taskid("http://a/", {"method": "get", "headers": {"X": "1"}}) == plain
    assert default_taskid("http://a/", {"data": ""}) == plain


def test_method_and_data_make_another_task() -> None:
    posts = [
        default_taskid("http://a/", {"method": "POST"}),
        default_taskid("http://a/", {"method": "PUT"}),
        default_taskid("http://a/", {"method": "POST", "data": "x=1"}),
        default_taskid("http://a/", {"method": "POST", "data": "x=2"}),
        default_taskid("http://a/", {"data": "x=1"}),
        default_taskid("http://a/"),
    ]

    assert len(set(posts)) == len(posts)
    assert posts[2] == md5(b"http://a/\nPOST\nx=1").hexdigest()


def test_data_is_the_same_in_any_order_and_as_text_or_bytes() -> None:
    one = default_taskid("http://a/", {"method": "POST", "data": {"a": 1, "b": 2}})
    other = default_taskid("http://a/", {"method": "POST", "data": {"b": 2, "a": 1}})

    assert one == other == md5(b"http://a/\nPOST\n" + msgpack.packb({"a": 1, "b": 2})).hexdigest()
    assert default_taskid("u", {"data": "é"}) == default_taskid("u", {"data": "é".encode()})


def test_a_new_task_says_only_what_was_given() -> None:
    task = new_task("http://a/")

    assert task.schedule == Schedule()
    assert bytes(task.body) == b"\xc0"
    assert task.project is None


def test_a_new_task_carries_its_schedule_and_parts() -> None:
    task = new_task(
        "http://a/", taskid="x", priority=5, delay=60, retries=0, age=86400, itag="v2", timeout=30, save=[1], fetch={}
    )

    assert task.taskid == "x"
    assert task.schedule == Schedule(priority=5, delay=60.0, retries=0, age=86400.0, itag="v2", timeout=30.0)
    assert body_of(task) == {"fetch": {}, "save": [1]}


def test_a_body_of_ones_own_is_sent_as_it_is() -> None:
    assert body_of(new_task("http://a/", body=[1, {"a": b"\xff"}])) == [1, {"a": b"\xff"}]


DEEPER = 50_000
"""Levels of nesting beyond CPython's limit: some thousand in 3.11, more than five thousand in 3.13."""


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"priority": "high"}, "schedule.priority: expected int, got str"),
        ({"priority": 2**70}, "schedule.priority: expected an integer of at most 64 bits"),
        ({"exetime": 10**400}, "schedule.exetime: expected an integer of at most 64 bits"),
        ({"exetime": 1.8e12}, "schedule.exetime: expected unix seconds of at most 1e11, not milliseconds"),
        ({"body": 2**64}, "body: expected an integer of at most 64 bits"),
        ({"save": {"a": [0, -(2**64)]}}, "save.a[1]: expected an integer of at most 64 bits"),
        ({"process": {"a": "\ud800"}}, "process.a: '\\ud800' can't be written as utf-8"),
        ({"body": nested(DEEPER)}, "body[0][0]"),
        ({"delay": float("nan")}, "schedule.delay: expected float >= 0"),
        ({"age": 0.5}, "schedule.age: expected float >= 1"),
        ({"timeout": 0}, "schedule.timeout: expected float > 0"),
        ({"retries": -1}, "schedule.retries: expected int >= 0"),
        ({"auto_recrawl": 1}, "schedule.auto_recrawl: expected bool, got int"),
        ({"taskid": ""}, "taskid: expected str of length >= 1"),
        ({"taskid": "é" * 65}, "taskid: expected at most 128 bytes"),
        ({"taskid": "\ud800"}, "taskid: '\\ud800' can't be written as utf-8"),
        ({"itag": "\ud800"}, "schedule.itag: '\\ud800' can't be written as utf-8"),
        ({"slot": ""}, "schedule.slot: expected str of length >= 1"),
        ({"slot": "a\tb"}, "schedule.slot: expected 1 to 253 characters without control characters, such as line ends"),
        ({"repeat": 3}, "schedule.repeat: goes with a task that recurs; give recrawl, or auto_recrawl and age, too"),
        ({"repeat": 3, "auto_recrawl": True}, "schedule.repeat: goes with a task that recurs; give recrawl"),
        (
            {"auto_recrawl": True},
            "schedule.auto_recrawl: goes with age, after which the task runs again; give age, too",
        ),
        ({"slot": "\ud800"}, "schedule.slot: '\\ud800' can't be written as utf-8"),
        ({"recrawl": {"min": 9, "max": 5}}, "schedule.recrawl: min is above max"),
        ({"recrawl": {"min": "soon", "max": 5}}, 'schedule.recrawl.min: expected seconds, or a duration such as "90s"'),
        ({"recrawl": {"min": 0, "max": 5}}, "schedule.recrawl.min: expected float >= 1"),
        ({"project": "a b"}, "project: expected 1 to 64 ASCII letters, digits,"),
        ({"job": "mon day"}, "schedule.job: expected 1 to 64 ASCII letters, digits,"),
        ({"url": ""}, "url: expected str of length >= 1"),
        ({"url": "x" * 8193}, "url: expected str of length <= 8192"),
        ({"url": "http://\udcff/"}, "url: 'http://\\udcff/' can't be written as utf-8"),
        ({"body": 1, "save": 2}, "body: give either body or"),
    ],
)
def test_a_mistake_is_told_where_it_is_made(said: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        new_task(**{"url": "http://a/", **said})


def test_a_task_may_name_its_slot_and_the_bounds_of_its_recrawl() -> None:
    task = new_task("http://a/", slot="a-shop", recrawl={"min": "1h", "max": 86_400})

    assert task.schedule == Schedule(slot="a-shop", recrawl=Recrawl(3600.0, 86_400.0))


@pytest.mark.parametrize("recrawl", [{"min": 5}, {"min": 5, "max": 9, "mid": 7}, "1h", [1, 2], {"min": None, "max": 5}])
def test_bounds_of_a_recrawl_are_two_durations(recrawl: Any) -> None:
    with pytest.raises(TypeError, match=r"^schedule\.recrawl: expected .*, got "):
        new_task("http://a/", recrawl=recrawl)


def test_a_task_has_what_its_last_report_said_of_its_page() -> None:
    handed = Assignment(
        "p", "t", "http://a/", Token(1), 60.0, etag='"v1"', last_modified="Tue, 14 Nov 2023 22:13:20 GMT"
    )

    task = Task.from_bytes(Task(handed).to_bytes())

    assert (task.etag, task.last_modified, task.content_hash) == ('"v1"', "Tue, 14 Nov 2023 22:13:20 GMT", "")
    assert task.conditional == {"If-None-Match": '"v1"', "If-Modified-Since": "Tue, 14 Nov 2023 22:13:20 GMT"}
    assert given(None).conditional == {}


def test_a_duration_may_be_a_text_wherever_a_task_is_described() -> None:
    task = new_task("http://a/", delay="5m", age="30d", timeout="1.5h")

    assert task == new_task("http://a/", delay=300.0, age=2_592_000.0, timeout=5400.0)
    assert as_new_task({"url": "http://a/"}, Defaults(delay="5m")) == new_task("http://a/", delay=300.0)
    with pytest.raises(ValueError, match=r'^schedule\.delay: expected seconds, or a duration such as "90s"'):
        new_task("http://a/", delay="soon")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"url": None}, "url: expected str, got NoneType"),
        ({"url": b"http://a/"}, "url: expected str, got bytes"),
        ({"taskid": 5}, "taskid: expected str, got int"),
        ({"fetch": [1]}, "fetch: expected a map, got list"),
        ({"fetch": "GET"}, "fetch: expected a map, got str"),
        ({"body": object()}, "body: object can't be encoded as MessagePack"),
        ({"fetch": {"data": object()}}, "fetch.data: object can't be encoded as MessagePack"),
        ({"save": {"a": [1, {"b": 1j}]}}, "save.a[1].b: complex can't be encoded as MessagePack"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told(said: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(reason)}$"):
        new_task(**{"url": "http://a/", **said})


def test_an_item_of_push_many_that_can_not_be_sent_is_rejected_with_its_place() -> None:
    pushed = Pushed()
    items: list[Any] = ["http://a/", {"url": "http://b/", "save": {"n": 2**64}}, {"url": "http://c/", "fetch": [1]}]

    [batch] = Packer(10, pushed).pack(items)

    assert batch.places == [0]
    assert pushed.errors == [
        "task 1: save.n: expected an integer of at most 64 bits",
        "task 2: fetch: expected a map, got list",
    ]


def test_a_task_shows_the_parts_of_its_body() -> None:
    task = given({"fetch": {"method": "POST"}, "save": 5})

    assert task.body == {"fetch": {"method": "POST"}, "save": 5}
    assert (task.fetch, task.process, task.save) == ({"method": "POST"}, {}, 5)


@pytest.mark.parametrize("body", [None, 5, [1], "text", {}])
def test_a_body_that_is_no_map_has_no_parts(body: Any) -> None:
    task = given(body)

    assert task.body == body
    assert (task.fetch, task.process, task.save) == ({}, {}, {})


def test_a_body_that_nobody_looks_at_is_not_decoded() -> None:
    task = Task(Assignment("p", "t", "http://a/", Token(1), 60.0, Raw(b"\xa1\xff")))

    with pytest.raises(ValueError, match="utf-8"):
        _ = task.body


# ---------------------------------------------------------------------------------------- canonical urls


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTP://Site.com/A", "http://site.com/A"),
        ("http://site.com", "http://site.com/"),
        ("HTTP://Site.com:80/a/", "http://site.com/a/"),
        ("https://ann:80@site.com:443", "https://ann:80@site.com/"),
        ("http://site.com:/a", "http://site.com/a"),
        ("http://[::80]:80/a?x=1", "http://[::80]/a?x=1"),
        ("http://site.com:443/a", "http://site.com:443/a"),
        ("https://site.com:80/", "https://site.com:80/"),
        ("http://site.com:8080/", "http://site.com:8080/"),
        ("http://bücher.de/ü", "http://xn--bcher-kva.de/%C3%BC"),
        ("http://faß.de/", "http://xn--fa-hia.de/"),
        ("http://b%C3%BCcher。DE/", "http://xn--bcher-kva.de/"),
        ("http://[::0080]:80/", "http://[::80]/"),
        ("http://a/x/../b/./c", "http://a/b/c"),
        ("http://a/?b=2&a=3&a=1&c", "http://a/?a=1&a=3&b=2&c="),
        ("http://a/%7euser?q=%c3%bc", "http://a/~user?q=%C3%BC"),
        ("http://a/b c?d e", "http://a/b%20c?d+e="),
        ("http://a/b#top", "http://a/b"),
        ("data:,x", "data:,x"),
    ],
)
def test_urls_that_mean_the_same_page_have_one_canonical_form(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical
    assert canonical_url(canonical) == canonical


def test_a_canonical_task_is_sent_and_named_by_its_canonical_url() -> None:
    one, other = (new_task(url, canonical=True) for url in ("http://a/?y=1&x=2#top", "HTTP://A/?x=2&y=1"))

    assert one == other
    assert (one.url, one.taskid) == ("http://a/?x=2&y=1", default_taskid("http://a/?x=2&y=1"))
    assert new_task("http://A/").url == "http://A/"


def test_what_has_no_canonical_form_is_no_task() -> None:
    with pytest.raises(ValueError, match=r"^url: 'http://\[::1'"):
        new_task("http://[::1", canonical=True)
    with pytest.raises(TypeError, match="url: expected str"):
        new_task(5, canonical=True)  # type: ignore[arg-type]


def test_push_many_makes_urls_canonical_unless_an_item_says_otherwise() -> None:
    items: list[Any] = [
        "http://A/",
        {"url": "http://A/"},
        {"url": "http://A/", "canonical": False},
        new_task("http://A/"),
    ]

    [batch] = Packer(10, Pushed(), Defaults(canonical=True)).pack(items)

    assert [task.url for task in batch.tasks] == ["http://a/", "http://a/", "http://A/", "http://A/"]
    assert as_new_task({"url": "http://A/", "canonical": True}).url == "http://a/"


# ---------------------------------------------------------------------------------------- times


AT = datetime(2026, 12, 1, 8, 0, tzinfo=timezone(timedelta(hours=1)))


def times(items: list[Any], **defaults: Any) -> list[tuple[float, float | None]]:
    """Return (exetime, delay) of each item."""
    [batch] = Packer(10, Pushed(), Defaults(**defaults)).pack(items)
    return [(task.schedule.exetime, task.schedule.delay) for task in batch.tasks]


def test_a_time_may_be_a_date_that_knows_its_zone() -> None:
    task = new_task("http://a/", exetime=AT, expires_at=AT + timedelta(hours=1))

    assert (task.schedule.exetime, task.schedule.expires_at) == (1796108400.0, 1796112000.0)


def test_a_duration_may_be_a_text_or_a_timedelta() -> None:
    hour = timedelta(hours=1)

    said = new_task("http://a/", delay=hour, age=hour, timeout="1h", recrawl={"min": hour, "max": "2h"}).schedule

    assert (said.delay, said.age, said.timeout) == (3600.0, 3600.0, 3600.0)
    assert said.recrawl == Recrawl(3600.0, 7200.0)


@pytest.mark.parametrize("field", ["exetime", "expires_at"])
def test_a_date_without_a_zone_is_no_time(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}: 2026-12-01T08:00:00 has no time zone"):
        new_task("http://a/", **{field: AT.replace(tzinfo=None)})  # type: ignore[arg-type]


def test_push_many_gives_one_time_to_all_that_say_none() -> None:
    items = [
        "http://a/",
        {"url": "http://b/"},
        {"url": "http://c/", "exetime": 5.0},
        {"url": "http://d/", "delay": 1.0},
    ]

    assert times(items, exetime=AT) == [(1796108400.0, None), (1796108400.0, None), (5.0, None), (0.0, 1.0)]
    assert times(items, delay=60.0) == [(0.0, 60.0), (0.0, 60.0), (5.0, None), (0.0, 1.0)]


def test_push_many_leaves_a_task_and_a_map_that_wants_no_time_as_they_are() -> None:
    items = [new_task("http://a/"), {"url": "http://b/", "exetime": None}]

    assert times(items, delay=60.0) == [(0.0, None), (0.0, None)]


@pytest.mark.parametrize(
    ("defaults", "says"),
    [
        ({"exetime": 5.0, "delay": 5.0}, "exetime: give either exetime or delay, not both"),
        ({"exetime": AT.replace(tzinfo=None)}, "exetime: 2026-12-01T08:00:00 has no time zone"),
        ({"exetime": "tomorrow"}, "schedule.exetime: "),
        ({"delay": -1.0}, "schedule.delay: "),
        ({"delay": float("inf")}, "schedule.delay: "),
    ],
)
def test_a_time_for_all_that_can_not_be_is_refused_before_anything_is_sent(defaults: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Defaults(**defaults)


def test_the_library_for_canonical_urls_is_loaded_when_one_is_made() -> None:
    code = "import sys, taskqueue; taskqueue.new_task('http://a/'); print('w3lib' in sys.modules)"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.strip() == "False"


def test_a_task_may_expire() -> None:
    assert new_task("http://a/", expires_at=1.7e9).schedule == Schedule(expires_at=1.7e9)
    with pytest.raises(ValueError, match=r"schedule\.expires_at"):
        new_task("http://a/", expires_at=-1)


# ---------------------------------------------------------------------------------------- setting fetch of projects


def with_defaults(body: Any, defaults: Any) -> Task:
    handed = Assignment("p", "t", "http://a/", Token(1), 60.0, Raw(msgpack.packb(body)))
    return Task(handed, Raw(defaults if isinstance(defaults, bytes) else msgpack.packb(defaults)))


def test_a_task_is_fetched_as_its_project_says_where_it_says_nothing() -> None:
    defaults = {"proxy": "http://proxy/", "headers": {"A": "1"}}

    assert with_defaults(None, defaults).fetch == defaults
    assert with_defaults({"save": 1}, defaults).fetch == defaults
    assert with_defaults({"fetch": {"timeout": 5}}, defaults).fetch == defaults | {"timeout": 5}


def test_what_a_task_says_of_fetching_wins_over_its_project_nil_too() -> None:
    task = with_defaults({"fetch": {"proxy": None, "timeout": 5}}, {"proxy": "http://proxy/", "timeout": 1, "x": 1})

    assert task.fetch == {"proxy": None, "timeout": 5, "x": 1}


def test_maps_are_joined_one_level_deep() -> None:
    own = {"headers": {"A": "own", "C": {"x": 1}}, "cookies": {"k": 1}, "proxy": {"host": 1}}
    defaults = {"headers": {"A": "1", "B": "2", "C": {"y": 2}}, "cookies": "none", "proxy": "http://proxy/"}

    assert with_defaults({"fetch": own}, defaults).fetch == {
        "headers": {"A": "own", "B": "2", "C": {"x": 1}}, "cookies": {"k": 1}, "proxy": {"host": 1},
    }  # fmt: skip


def test_the_body_stays_as_it_was_sent() -> None:
    task = with_defaults({"fetch": {"headers": {"A": "own"}}}, {"headers": {"B": "2"}})

    task.fetch["headers"]["C"] = "3"

    assert task.fetch["headers"] == {"A": "own", "B": "2", "C": "3"}
    assert task.body == {"fetch": {"headers": {"A": "own"}}}


@pytest.mark.parametrize("defaults", [b"\xc1", b"\x81", b"\x90", b"\xc0", b"\xa1\xff", b"\x81\x80\x01", b""])
def test_a_malformed_default_counts_as_none(defaults: bytes) -> None:
    assert with_defaults({"fetch": {"timeout": 5}}, defaults).fetch == {"timeout": 5}


def test_a_fetch_that_is_no_map_stands_alone() -> None:
    assert with_defaults({"fetch": ["GET"]}, {"proxy": "x"}).fetch == ["GET"]
    assert with_defaults([1], {"proxy": "x"}).fetch == {"proxy": "x"}


# ------------------------------------------------------------------------------------------------ travelling


TRAVELLING = (
    "9301 86 a770726f6a656374 a46e657773 a67461736b6964 a174 a375726c a9687474703a2f2f612f a5746f6b656e 07"
    "a774696d656f7574 cb4082c00000000000 a4626f6479 81a47361766581a16e01 81a76865616465727381a15aa178"
)
"""Task in version 1 of its format: newer programs must read it, because processes are not all replaced at once."""


def travelling() -> Task:
    handed = Assignment("news", "t", "http://a/", Token(7), 600.0, Raw(msgpack.packb({"save": {"n": 1}})))
    return Task(handed, Raw(msgpack.packb({"headers": {"Z": "x"}})))


def test_a_task_is_the_same_in_another_process() -> None:
    it = Task.from_bytes(travelling().to_bytes())

    assert (it.project, it.taskid, it.url, it.token, it.timeout) == ("news", "t", "http://a/", 7, 600.0)
    assert (it.save, it.fetch, it.retried, it.lastcrawltime) == ({"n": 1}, {"headers": {"Z": "x"}}, 0, 0.0)


def test_a_task_without_a_body_travels_too_with_what_became_of_it_before() -> None:
    schedule = Schedule(priority=3, age=60.0)
    handed = Assignment("news", "t", "http://a/", Token(7), 600.0, retried=2, lastcrawltime=1.7e9, schedule=schedule)

    it = Task.from_bytes(memoryview(Task(handed).to_bytes()))

    assert (it.body, it.fetch, it.retried, it.lastcrawltime) == (None, {}, 2, 1.7e9)
    assert it.schedule == schedule


def test_everything_that_was_handed_out_travels() -> None:
    handed = Assignment(
        "news", "t", "http://a/", Token(7), 600.0, Raw(msgpack.packb(1)), 2, 1.7e9, Schedule(priority=3, itag="v2"),
        0.5, 1.0, '"v1"', "Tue, 14 Nov 2023 22:13:20 GMT", "d2e30d02", "a",
    )  # fmt: skip

    _, travelled, _ = msgpack.unpackb(Task(handed).to_bytes())

    assert set(travelled) == set(Assignment.__struct_fields__)


def test_a_body_travels_byte_for_byte() -> None:
    odd = b"\xa4\xff\xff\xff\xff"  # text that is not utf-8

    travelled = Task(Assignment("news", "t", "http://a/", Token(7), 600.0, Raw(odd))).to_bytes()

    assert odd in Task.from_bytes(travelled).to_bytes() == travelled


def test_what_travels_is_as_it_was_in_version_1() -> None:
    assert travelling().to_bytes() == bytes.fromhex(TRAVELLING)
    assert len(travelling().to_bytes()) < 150


def test_what_a_newer_version_has_added_is_passed_over() -> None:
    version, handed, defaults = msgpack.unpackb(bytes.fromhex(TRAVELLING))

    it = Task.from_bytes(msgpack.packb([version, handed | {"colour": "red"}, defaults, None, None, "more"]))

    assert it.url == "http://a/"


@pytest.mark.parametrize(
    ("travelled", "said"),
    [
        (b"", "truncated"),
        (b"http://a/", "Expected `array`"),
        (msgpack.packb([2, "elsewhere"]), "have version 2, and this program reads version 1"),
        (msgpack.packb([1, {"url": "http://a/"}, None]), "missing required field `project`"),
        (bytes.fromhex(TRAVELLING)[:-1], "truncated"),
    ],
)
def test_what_is_no_task_is_refused(travelled: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=f"Task.from_bytes: these bytes are not a task: .*{said}"):
        Task.from_bytes(travelled)
