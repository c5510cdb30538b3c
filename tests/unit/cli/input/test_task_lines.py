"""Lines of a file of tasks: their meaning, and complaints about meaningless ones."""

from __future__ import annotations

import json

import pytest

from taskqueue.cli.input.task_lines import parse
from taskqueue.client.tasks.new_task import default_taskid, new_task
from taskqueue.protocol.values import Recrawl, TaskOf


def test_a_line_that_is_no_object_is_a_url() -> None:
    assert parse("http://site/a", {}) == new_task("http://site/a")


def test_an_object_says_what_new_task_takes() -> None:
    line = json.dumps({"url": "http://site/", "taskid": "a", "priority": 5, "fetch": {"method": "POST"}, "save": 1})

    assert parse(line, {}) == new_task("http://site/", taskid="a", priority=5, fetch={"method": "POST"}, save=1)


def test_the_schedule_may_stand_in_an_object_of_its_own() -> None:
    line = '{"url": "http://site/", "schedule": {"delay": 60, "itag": "v2"}}'

    assert parse(line, {}) == new_task("http://site/", delay=60, itag="v2")


def test_a_line_may_expire_and_may_be_written_canonically() -> None:
    line = '{"url": "HTTP://Site/?b=2&a=1#top", "expires_at": 2000000000, "canonical": true}'

    assert parse(line, {}) == new_task("HTTP://Site/?b=2&a=1#top", expires_at=2e9, canonical=True)


def test_a_time_in_a_line_may_be_a_date_with_its_zone() -> None:
    line = '{"url": "http://site/", "exetime": "2026-12-01T08:00:00+01:00", "expires_at": "2026-12-02T08:00:00Z"}'

    assert parse(line, {}) == new_task("http://site/", exetime=1796108400.0, expires_at=1796198400.0)


def test_a_date_may_stand_in_the_object_of_the_schedule() -> None:
    line = '{"url": "http://site/", "schedule": {"exetime": "2026-12-01 08:00+01:00"}}'

    assert parse(line, {}).schedule.exetime == 1796108400.0


@pytest.mark.parametrize("own", ['"exetime": 5', '"delay": 5', '"schedule": {"exetime": 5}', '"exetime": null'])
@pytest.mark.parametrize("of_all", [{"exetime": 9e9}, {"delay": 600.0}])
def test_a_line_with_a_time_of_its_own_has_no_other(own: str, of_all: dict[str, float]) -> None:
    alone = parse(f'{{"url": "http://site/", {own}}}', {})

    assert parse(f'{{"url": "http://site/", {own}}}', of_all) == alone
    assert parse("http://site/", of_all) == new_task("http://site/", **of_all)  # type: ignore[arg-type]


def test_a_duration_may_be_written_as_on_the_command_line() -> None:
    line = '{"url": "http://site/", "delay": "5m", "age": "30d", "schedule": {"timeout": "90"}}'

    assert parse(line, {}) == new_task("http://site/", delay=300.0, age=2_592_000.0, timeout=90.0)


def test_a_line_wins_over_what_is_said_for_all() -> None:
    task = parse('{"url": "http://site/", "priority": 1}', {"priority": 9, "age": 60.0})

    assert (task.schedule.priority, task.schedule.age) == (1, 60.0)


def test_the_taskid_is_that_of_the_request() -> None:
    assert parse('{"url": "http://site/#part"}', {}).taskid == default_taskid("http://site/")


@pytest.mark.parametrize("url", ["http://site/", "HTTPS://site/", "data:,on_start"])
def test_a_url_is_one_of_http_or_https_or_data(url: str) -> None:
    assert parse(url, {}).url == url
    assert parse(json.dumps({"url": url}), {}).url == url


@pytest.mark.parametrize("url", ["mailto:a@site", "ftp://site/", "s3://bucket/key", "file:///etc/passwd"])
def test_every_scheme_is_taken_where_it_is_asked_for(url: str) -> None:
    with pytest.raises(ValueError, match="--any-scheme accepts it"):
        parse(url, {})

    assert parse(url, {}, any_scheme=True).url == url


def test_a_line_with_a_body_of_its_own_has_none_of_those_that_are_for_all() -> None:
    assert parse('{"url": "http://site/", "body": 1}', {"save": 2}) == new_task("http://site/", body=1)
    assert parse('{"url": "http://site/", "save": 1}', {"body": 2}) == new_task("http://site/", save=1)
    assert parse('{"url": "http://site/", "process": {}}', {"save": 2}) == new_task("http://site/", process={}, save=2)
    assert parse("http://site/", {"body": 2}) == new_task("http://site/", body=2)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "'nonsense' is not a URL, which begins with a scheme such as https:"),
        ("# comment", "'# comment' is not a URL"),
        ("not json {", "'not json {' is not a URL"),
        ("mailto:ann@site", "'mailto:ann@site' is not a URL of http, https or data; --any-scheme accepts it"),
        ("javascript:void(0)", "is not a URL of http, https or data"),
        ("http:///path", "'http:///path' has no host"),
        ("http://site/\0", r"url: 'http://site/\x00' has white space around it or a control character in it"),
        ('{"url": "nonsense"}', "'nonsense' is not a URL"),
        ('{"url": ', "not JSON: "),
        ('{"url": "http://site/", "save": ' + "[" * 100_000, "nested too deep"),
        ('{"taskid": "a"}', "there is no url"),
        ('{"url": 5}', "url: expected str, got int"),
        ('{"url": ""}', "url: "),
        ('{"url": "http://site/", "speed": 5}', "speed is not a field of a task"),
        ('{"url": "http://site/", "schedule": 5}', "schedule must be an object"),
        ('{"url": "http://site/", "schedule": {"url": "x"}}', "url is not a field of a schedule"),
        ('{"url": "http://site/", "priority": 5, "schedule": {"priority": 6}}', "priority is given twice"),
        ('{"url": "http://site/", "priority": "high"}', "priority: expected int"),
        ('{"url": "http://site/", "fetch": "GET"}', "fetch must be an object"),
        ('{"url": "http://site/", "delay": NaN}', "NaN is no number"),
        (
            '{"url": "http://site/", "exetime": "tomorrow"}',
            'exetime: "tomorrow" is no time, such as "2027-01-31 18:00"',
        ),
        ('{"url": "http://site/", "exetime": "9999-01-01"}', 'exetime: "9999-01-01" lies too far in the future'),
        ('{"url": "http://site/", "expires_at": ""}', 'expires_at: "" is no time'),
        ('{"url": "http://site/", "repeat": 3}', "schedule.repeat: goes with a task that recurs; give recrawl, or"),
        ('{"url": "http://site/", "auto_recrawl": true}', "schedule.auto_recrawl: goes with age, after which the task"),
        ('{"url": "http://site/", "on_parent_failure": "only"}', 'on_parent_failure: "only" goes with parents that'),
        ('{"url": "http://site/", "on_parent_failure": "onyl"}', "none of fail, only, run, wait; did you mean only?"),
        ('{"url": "http://site/", "delay": "5 m"}', 'delay: "5 m" is no duration, such as 90s, 5m, 12h or 2d'),
    ],
)
def test_a_line_that_is_no_task_is_refused_with_the_reason(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse(line, {})

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_names_a_slot_and_the_bounds_of_a_recrawl_as_text_or_in_seconds() -> None:
    line = '{"url": "http://a/", "slot": "a-shop", "recrawl": {"min": "1h", "max": 7200}}'

    schedule = parse(line, {"slot": "other"}).schedule

    assert (schedule.slot, schedule.recrawl) == ("a-shop", Recrawl(3600.0, 7200.0))
    assert parse("http://a/", {"slot": "other"}).schedule.slot == "other"


def test_a_line_says_what_its_task_waits_for() -> None:
    line = '{"url": "http://a/", "depends_on": ["A", ["shops", "B"]], "on_parent_failure": "run"}'

    task = parse(line, {"depends_on": ["C"]})

    assert (task.depends_on, task.on_parent_failure) == (("A", TaskOf("shops", "B")), "run")
    assert parse("http://a/", {"depends_on": ["C"]}).depends_on == ("C",)
