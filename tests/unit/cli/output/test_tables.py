"""Tables as a terminal of 80 columns shows them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from math import inf
from typing import Any

import pytest
from freezegun import freeze_time
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from taskqueue.cli.commands.stats import of_stats
from taskqueue.cli.input.times import paused_until
from taskqueue.cli.output.fetcher_tables import HUNG_SHOWN, of_fetchers, show_fetchers
from taskqueue.cli.output.project_tables import (
    REMAINING_SHOWN,
    cron_lines,
    of_cron,
    of_pauses,
    of_projects,
    of_remaining,
    of_settings,
)
from taskqueue.cli.output.tables import of_fields
from taskqueue.cli.output.task_tables import of_attempts, of_operations, of_tasks
from taskqueue.client.tasks.new_task import default_taskid
from taskqueue.display.json_values import as_plain
from taskqueue.display.operations import outcome, progress
from taskqueue.protocol.fetchers import Fetcher, HungPlaces
from taskqueue.protocol.insight import ProjectStats, Window, Windows
from taskqueue.protocol.projects import CronEntry, Project, Remaining, SharedBucket
from taskqueue.protocol.tasks import TaskRow
from taskqueue.protocol.values import Attempt, EventTotals, Operation, TaskCounts, TaskFilter

NOON = 1_700_000_000.0
URL = "https://example.com/a/rather/long/path/that/goes/on/and/on/over/the/end/of/a/line.html"


VIEW = Project(
    name="news",
    state="running",
    counts=TaskCounts(ready=1234, delayed=56, processing=7, success=8901, failed=23, cancelled=4),
    totals=EventTotals(),
    settings={"rate": 50.0, "burst": 10.0},
    overrides={},
)
RETRY = Operation(
    id=17_592_186_044_417,
    action="retry",
    projects=["news"],
    dry_run=False,
    known=20_311,
    seen=10_000,
    matched=1_204,
    began_at=NOON,
)


def shown(table: Table, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(table)
    text = file.getvalue()
    assert "…" not in text
    return text


def test_projects_are_shown_whole() -> None:
    text = shown(of_projects([VIEW]))

    assert text.splitlines()[1].split() == ["news", "running", "1,234", "56", "7", "8,901", "23", "4", "50/s", "10"]


@pytest.mark.parametrize(
    ("name", "own", "pace", "burst"),
    [
        ("z", inf, "z 5/s", "7"),
        ("z", 2.0, "2/s z 5/s", "10"),
        ("a-bucket-with-a-long-name", inf, "a-buck.. 5/s", "7"),
    ],
)
def test_a_shared_bucket_is_shown_as_the_pace_of_a_project(name: str, own: float, pace: str, burst: str) -> None:
    sharing = replace(VIEW, settings={"rate": own, "burst": 10.0}, shared=SharedBucket(name, 5.0, 7.0))

    text = shown(of_projects([sharing]))
    assert text.splitlines()[1].split()[-1] == burst
    assert pace.split() == [word for word in text.split() if word in pace.split()]


def test_what_projects_are_sorted_by_is_a_column() -> None:
    lines = shown(of_projects([VIEW], "failed_5m", [12345])).splitlines()

    assert lines[1].split()[:4] == ["news", "running", "12,345", "1,234"]
    assert "failed 5m" in lines[0]
    assert shown(of_projects([VIEW], "ready", [1234])) == shown(of_projects([VIEW]))


LONG = replace(VIEW, name="www.example.org-newspapers", counts=TaskCounts(ready=1_234_567, delayed=12_345, failed=23))


def test_where_there_is_no_room_numbers_stay_whole_and_what_says_nothing_goes() -> None:
    head, row = map(str.split, shown(of_projects([LONG])).splitlines())

    assert head == ["project", "state", "ready", "delayed", "processing", "failed", "rate"]
    assert row == ["www.example.org-newspapers", "running", "1,234,567", "12,345", "0", "23", "50/s"]


def test_where_there_is_less_room_names_are_broken() -> None:
    first, second = shown(of_projects([LONG]), 56).splitlines()[1:]

    assert first.split() == ["www.example.org-ne", "running", "1,234,567", "12,345", "23", "50/s"]
    assert second.strip() == "wspapers"


def test_where_there_is_no_room_for_a_row_each_value_has_a_line() -> None:
    lines = [line.split() for line in shown(of_projects([LONG, VIEW]), 30).splitlines()]

    assert lines[:3] == [["project", LONG.name[:18]], [LONG.name[18:]], ["state", "running"]]
    assert ["ready", "1,234,567"] in lines
    assert ["project", "news"] in lines


def test_of_one_thing_a_long_word_is_broken_and_a_traceback_has_its_lines() -> None:
    fields = {"url": URL, "error": "Traceback:\n  File x\nValueError: no\x1b[0m"}

    lines = shown(of_fields(fields, long="error")).splitlines()

    assert "".join(line[7:].strip() for line in lines[:-3]) == URL
    assert [line[7:].rstrip() for line in lines[-3:]] == ["Traceback:", "  File x", "ValueError: no\\u001b[0m"]


def test_blocked_tasks_have_a_column_where_there_are_some() -> None:
    waiting = replace(VIEW, counts=replace(VIEW.counts, blocked=12345))

    lines = shown(of_projects([VIEW, waiting])).splitlines()

    assert [line.split()[2:4] for line in lines] == [["blocked", "ready"], ["0", "1,234"], ["12,345", "1,234"]]
    assert "blocked" not in shown(of_projects([VIEW]))
    assert shown(of_projects([waiting], "blocked", [12345])).split().count("12,345") == 1


@pytest.mark.parametrize("state", ["running", "checking", "paused", "stopped"])
def test_every_state_can_be_shown(state: str) -> None:
    assert f" {state} " in shown(of_projects([replace(VIEW, state=state)]))


def test_a_fetcher_that_drains_is_shown_to_with_what_it_holds() -> None:
    draining = Fetcher("5f0c", "web1", 20, 3, 1.0, None, "10.0.0.7", draining=True)

    lines = shown(of_fetchers([draining, replace(draining, name="web2", draining=False)])).splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["fetcher", "state", "holds"],
        ["web1", "draining", "3/20"],
        ["web2", "3/20", "0"],
    ]


def test_ticks_of_graphs_that_wait_or_were_skipped_are_told_with_the_reason() -> None:
    told = CronEntry(entry="night", next_at=NOON, last_at=0.0, ran=1, skipped=2, waiting=10, problem="full")
    plain = CronEntry(entry="front", next_at=NOON, last_at=0.0, ran=1, skipped=2)

    assert list(cron_lines([replace(VIEW, cron=[told, plain])])) == [
        "news: night: ticks that wait for the end of an earlier flow: 10",
        "news: night: the last tick was skipped: full",
    ]


def test_places_that_hang_are_shown_beside_what_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    fresh = Fetcher("5f0c", "web1", 20, 3, 1.0, slots=16, free=17)
    hung = replace(fresh, name="web2", holds=0, hung=HungPlaces(16, 540.0, "news", "a", "http://a/"))
    late = replace(fresh, name="web3", holds=0, hung=HungPlaces(1, 60.0, "news", "b"))

    show_fetchers([fresh, late, hung, *(replace(late, name=f"w{n}") for n in range(HUNG_SHOWN))])
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[:6] for line in lines[:4]] == [
        ["fetcher", "state", "holds", "hung", "slow", "oldest"],
        ["web1", "3/20", "0", "s", "0", "0"],
        ["web3", "0/20", "1", "for", "1", "min"],
        ["web2", "0/20", "16", "for", "9", "min"],
    ]
    words = " ".join(lines)
    longest = (
        "16 of the 16 places of web2 are occupied by handlers whose lease has ended, the longest for 9 min: http://a/"
    )
    assert words.index(longest) < words.index('for 1 min: task "b" of project "news"')
    assert lines[-1] == "and 2 more fetchers have hung places"


def test_a_pause_is_shown_with_its_reason_and_the_next_check() -> None:
    paused = replace(VIEW, state="paused", reason="10 failures in a row", check_at=NOON)
    checking = replace(VIEW, name="blog", state="checking", reason="10 failures in a row")

    news, blog = map(str.rstrip, shown(of_pauses([replace(VIEW, name="other"), paused, checking])).splitlines())

    assert news.startswith("news  10 failures in a row; next check 2023-11-1")
    assert blog == "blog  10 failures in a row; is being checked"


def test_a_pause_for_a_time_is_told_with_its_end() -> None:
    paused = replace(VIEW, name="news", state="paused", paused_until=NOON)

    assert shown(of_pauses([paused])).rstrip() == f"news  {paused_until(NOON)}"


def test_of_many_pauses_some_are_shown_and_the_rest_counted() -> None:
    file = io.StringIO()

    Console(file=file, width=80).print(of_pauses([replace(VIEW, state="checking", reason="failures")] * 8))

    assert file.getvalue().splitlines()[-1].split() == ["…", "and", "3", "more"]


def test_how_far_projects_are_is_a_line_of_each_that_has_anything_left() -> None:
    views = [
        replace(VIEW, name="shop", remaining=Remaining(left=9, new_rate=12, done_rate=3.4, reason="growing")),
        replace(VIEW, name="done", remaining=Remaining(reason="nothing-left")),
        replace(VIEW, name="old", remaining=None),
    ]

    assert shown(of_remaining(views)).split("\n")[0].rstrip() == "shop  9 left, no end in sight: 12 new/s, 3.4 done/s"
    assert of_remaining(views).row_count == 1
    assert of_remaining(views * 40).row_count == REMAINING_SHOWN + 1


def far(name: str, **facts: Any) -> Project:
    return replace(VIEW, name=name, remaining=Remaining(left=9, **facts))


def test_why_no_time_is_known_is_not_told_again_if_the_table_shows_it() -> None:
    views = [far(reason, reason=reason) for reason in ("stopped", "paused", "no-rate", "out-of-hours")]

    assert of_remaining(views).row_count == 0
    assert of_remaining([*views, far("jobs", reason="blocked")]).row_count == 1


def test_projects_that_have_ended_too_few_tasks_share_a_line() -> None:
    views = [far(f"p{number}", reason="too-few") for number in range(12)]

    first, shop = map(str.rstrip, shown(of_remaining([*views, far("shop", reason="growing")])).splitlines()[:2])

    assert first == "12 projects  time unknown: fewer than 20 tasks ended in the last hour"
    assert shop.startswith("shop         9 left, no end in sight")
    assert shown(of_remaining(views[:1])).startswith("p0  9 left, time unknown: fewer than 20")


def test_cron_entries_are_shown_with_when_they_run() -> None:
    entries = {
        "daily": {"cron": "0 3 * * *", "zone": "Europe/Berlin"},
        "front": {"every": "5m"},
        "utc": {"cron": "* 1 * *"},
    }
    cron = [CronEntry("daily", NOON, NOON, 12345, 3), CronEntry("front", NOON), CronEntry("utc")]

    text = shown(of_cron([replace(VIEW, settings={"cron": entries}, cron=cron)]))

    daily, front, utc = text.split("news")[1:]
    assert "".join(daily.split()).endswith("03***Europe/Berlin")
    assert "ago 12,345       3" in daily
    assert front.split()[-4:] == ["0", "0", "every", "5m"]
    assert "never" in utc


def test_settings_are_shown_by_the_names_that_unset_takes() -> None:
    patterns = {"*.org": {"delay": 5}, "a.b": {"max_tasks": float("inf")}}
    settings = {
        "rate": 5.0,
        "group": "",
        "slot": {"by": "host", "burst": 2.0, "patterns": patterns},
        "fetch": {"proxy": "a:1", "timeout": 30},
        "on_finished": None,
    }

    overrides = {"rate": 5.0, "slot": {"by": "host", "patterns": {"*.org": {"delay": 5}}}, "fetch": {"proxy": "a:1"}}
    configured = {"fetch.timeout": ["project"], "slot.burst": ["defaults"], "slot.patterns.a.b": ["defaults"]}
    view = replace(VIEW, settings=settings, overrides=overrides, configured=configured)
    text = shown(of_settings(view))

    assert [line.split() for line in text.splitlines()[1:]] == [
        ["rate", "project", "set", "5"],
        ["group", "default"],
        ["slot.by", "project", "set", "host"],
        ["slot.burst", "[defaults]", "2"],
        ["slot.patterns.*.org", "project", "set", '{"delay":', "5}"],
        ["slot.patterns.a.b", "[defaults]", '{"max_tasks":', '"inf"}'],
        ["fetch.proxy", "project", "set", "a:1"],
        ["fetch.timeout", "config", "file", "30"],
        ["on_finished", "default", "null"],
    ]


def test_a_task_is_listed_by_the_name_by_which_it_can_be_shown() -> None:
    rows = [TaskRow(default_taskid("http://a/"), "http://a/", 5), TaskRow("b", "http://b/", -1, NOON, 2)]

    text = shown(of_tasks(rows))

    assert text.splitlines()[1].split() == ["now", "5", "0", "http://a/"]
    assert text.splitlines()[2].split()[-4:] == ["-1", "2", "b", "http://b/"]


def test_what_is_blocked_has_no_time() -> None:
    assert shown(of_tasks([TaskRow("A", "http://a/")], "blocked")).splitlines()[0].split() == ["retried", "task"]


def test_what_failed_is_listed_with_the_last_line_of_its_error_in_80_columns() -> None:
    row = TaskRow(default_taskid(URL), URL, 0, NOON, 3, error="Traceback\nValueError: no title", fetcher="host:1")

    lines = shown(of_tasks([row])).splitlines()

    assert lines[0].split() == ["when", "retried", "task", "error"]
    assert "Traceback" not in lines[1]
    assert max(map(len, lines)) <= 80


def test_what_is_processing_is_listed_with_how_long_and_by_whom_it_is_held() -> None:
    row = TaskRow("b", "http://b/", 0, NOON, 0, fetcher="crawler-7:4711", lease_seconds=35.0)

    with freeze_time(datetime.fromtimestamp(NOON + 65, UTC)):
        lines = shown(of_tasks([row])).splitlines()

    assert lines[0].split() == ["held", "left", "fetcher", "retried", "task"]
    assert lines[1].startswith("1 min 5 s ")
    assert lines[1].split()[-4:] == ["crawler-7:4711", "0", "b", "http://b/"]
    assert "35 s" in lines[1]


def test_a_long_url_is_broken_not_cut() -> None:
    text = shown(of_tasks([TaskRow(default_taskid(URL), URL, 0, NOON)]))

    assert "".join(text.split()[-3:]).endswith(URL[20:])


def test_attempts_are_shown_with_their_errors_whole() -> None:
    attempts = [Attempt(NOON, "timeout", "host:1", 600.0, "no answer " * 20), Attempt(NOON, "expired")]

    text = shown(of_attempts(attempts))

    assert text.count("answer") == 20
    assert "10 min host:1" in text
    assert text.splitlines()[-1].split()[-1] == "expired"


@pytest.mark.parametrize("kind", ["ValueError: no title", ""])
def test_of_an_error_its_kind_is_shown_or_the_line_that_tells_it(kind: str) -> None:
    error = 'Traceback (most recent call last):\n  File "x", line 1\nValueError: no title\n(see: https://e/)\n'
    attempt = Attempt(NOON, "failed", "host:1", 1.0, error, kind)
    row = TaskRow("a", "http://a/", 0, NOON, error=error, kind=kind)

    for text in (shown(of_attempts([attempt])), shown(of_tasks([row]))):
        assert "ValueError: no title" in text
        assert "https://e/" not in text


def test_how_often_tasks_were_put_off_is_listed_if_one_was() -> None:
    rows = [TaskRow("a", "http://a/", 0, NOON, put_off=506), TaskRow("b", "http://b/", 0, NOON)]

    lines = shown(of_tasks(rows)).splitlines()
    assert "put off" in lines[0]
    assert [line.split()[-3] for line in lines[1:]] == ["506", "0"]
    assert "put off" not in shown(of_tasks(rows[1:]))


def test_operations_are_shown_whole() -> None:
    text = shown(
        of_operations([replace(RETRY, action="reprioritise"), replace(RETRY, dry_run=True, ended_at=NOON + 5)])
    )

    assert text.splitlines()[1].split()[-4:] == ["49%", "10,000", "1,204", "news"]
    assert " dry retry " in text
    assert text.splitlines()[2].split()[-4:] == ["ended", "10,000", "1,204", "news"]


def test_an_operation_is_shown_with_its_filter() -> None:
    chosen = TaskFilter(states=["failed", "cancelled"], error="*time out*", before=NOON, ignore_case=True)

    lines = shown(of_operations([replace(RETRY, filter=chosen)])).splitlines()
    column = lines[0].index("tasks of")
    told = "".join(line[column:] for line in lines[1:]).replace(" ", "")
    assert told.startswith("news--statefailed--statecancelled--error-glob'*timeout*'--ignore-case--until'2023-11-1")


def test_an_operation_that_has_not_ended_is_never_whole() -> None:
    assert progress(replace(RETRY, seen=30_000)) == "99%"
    assert progress(replace(RETRY, known=0, seen=0)) == "0%"


def test_the_outcome_of_an_operation_is_a_sentence() -> None:
    assert outcome(RETRY) == "retried 1,204 tasks of 10,000 scanned (operation 17592186044417)"
    assert outcome(replace(RETRY, dry_run=True, action="cancel", matched=1)).startswith(
        "would cancel 1 task of 10,000 "
    )


STATS = ProjectStats(
    "news",
    EventTotals(new=12_345_678, selected=2_345_678, success=1_345_678, failed=345_678, retried=45_678, timeout=5_678),
    Windows(minutes=Window(new=3, selected=2, success=1, mean_seconds=0.25, p95_seconds=1234.5)),
)


def test_stats_are_shown_whole() -> None:
    recent = shown(of_stats([STATS], "5m")).splitlines()[1].split()
    over_all = shown(of_stats([STATS], "all")).splitlines()

    assert recent == ["news", "3", "2", "1", "·", "·", "·", "0.2", "1,234.5"]
    assert over_all[1].split()[1:] == ["12,345,678", "2,345,678", "1,345,678", "345,678", "45,678", "5,678"]
    assert "p95" not in over_all[0]


def test_json_names_the_windows_as_messages_do() -> None:
    windows = as_plain(STATS)["windows"]

    assert list(windows) == ["5m", "1h", "1d"]
    assert windows["5m"]["p95_seconds"] == 1234.5


def test_a_value_with_line_ends_does_not_look_like_further_fields() -> None:
    lines = shown(of_fields({"taskid": "a\nstate    success", "url": "http://a/\r\n\u2028b"})).splitlines()

    assert [line.rstrip() for line in lines] == ["taskid  a\\nstate    success", "url     http://a/\\r\\n\\u2028b"]
