"""The taskqueue command against a real daemon, as a user runs it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgpack
import pytest

from taskqueue import Client
from taskqueue.cli.main import main
from taskqueue.protocol.choices import TaskState
from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory
from tests.integration.nursery import WAIT_SECONDS, Forked, run_forked

COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]
SETTINGS: dict[str, Any] = {"auto_create": False, "projects": {"news": {"rate": 5}}}
LIST_DELAYED = ("task", "list", "news", "--state", "delayed", "--json")

Capture = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a daemon that serves most tests, one after the other."""
    it = Daemon(tmp_path_factory.mktemp("daemon"), **SETTINGS).start()
    yield it.url
    assert it.stop() == 0


@pytest.fixture
def left_as_it_was(shared: str) -> Iterator[str]:
    """Shared daemon, restored to its first state but for its counters, its log and its operations."""
    with Client(shared) as client:
        client.projects.start("news")
        yield shared
        for project in client.projects.list().items:
            client.projects.delete(project.name)


@pytest.fixture
def url(left_as_it_was: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Daemon with a project ``news``, named by the environment."""
    monkeypatch.setenv("TASKQUEUE_DAEMON", left_as_it_was)
    return left_as_it_was


@pytest.fixture
def own(url: str, daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Private daemon of this test, in place of that of ``url``."""
    monkeypatch.setenv("TASKQUEUE_DAEMON", daemon(**SETTINGS).url)


@pytest.fixture
def run(url: str, capsys: Capture) -> Run:
    """Run a command in this process; return exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def crawler(tmp_path: Path) -> Path:
    """Folder with a module of handlers."""
    (tmp_path / "crawler.py").write_text(
        "def crawl(task):\n"
        "    return ['http://site/found'] if task.url.endswith('/start') else []\n"
        "def stumble(task):\n"
        "    raise ValueError('no title on ' + task.url)\n"
    )
    return tmp_path


@pytest.fixture
def worker(own: None, crawler: Path) -> Iterator[Callable[..., Forked[str]]]:
    """Start ``taskqueue work`` in the folder of the handlers; a killed one stays listed for a while."""
    started: list[Forked[str]] = []

    def start(*arguments: str) -> Forked[str]:
        it = Forked[str]([*COMMAND, "work", *arguments], cwd=crawler, stderr=subprocess.PIPE, text=True)
        started.append(it)
        return it

    yield start
    for it in started:
        it.kill()
        it.communicate()


def counts(run: Run) -> dict[str, int]:
    """Fetch the counts of project news."""
    projects = json.loads(run("status", "--json")[1])["projects"]
    return next(dict(project["counts"]) for project in projects if project["name"] == "news")


def wait_for(run: Run, **expected: int) -> None:
    """Ask until the counts are as expected; pytest's timeout ends it otherwise."""
    while {name: count for name, count in counts(run).items() if name in expected} != expected:
        select.select([], [], [], 0.02)


# ------------------------------------------------------------------------------------------------ push


def test_pushed_urls_are_counted_by_what_became_of_them(run: Run) -> None:
    assert run("push", "news", "http://a/", "http://b/") == (0, "2 new, 0 merged, 0 ignored, 0 rejected\n", "")
    assert run("push", "news", "http://b/", "http://c/") == (0, "1 new, 0 merged, 1 ignored, 0 rejected\n", "")
    assert run("push", "news", "http://c/", "--priority", "9")[1] == "0 new, 1 merged, 0 ignored, 0 rejected\n"


def test_a_file_may_hold_urls_and_objects(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(
        '\ufeffhttp://a/\n\n{"url": "http://b/", "taskid": "b", "schedule": {"delay": 3600}, "save": {"n": 1}}\n'
    )

    assert run("push", "news", "--file", str(file)) == (0, "2 new, 0 merged, 0 ignored, 0 rejected\n", "")

    assert counts(run)["delayed"] == 1
    assert '"save": {"n": 1}' in run("task", "show", "news", "b")[1]


def test_bad_lines_are_named_and_counted_and_the_rest_goes_on(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b'http://a/\n{"url"\n{"url": "http://b/", "speed": 1}\nhttp://c/\xff\nhttp://d/\n')

    status, out, err = run("push", "news", "--file", str(file))

    assert status == 1
    assert out == "2 new, 0 merged, 0 ignored, 3 rejected\n"
    assert [line.split(": ")[1] for line in err.splitlines()] == [f"{file}:{number}" for number in (2, 3, 4)]


def test_lines_that_are_no_urls_are_named_and_the_rest_is_pushed(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    lines = [
        "# comment",
        "http://a/",
        "nonsense",
        "not json {",
        "mailto:ann@a",
        "javascript:x()",
        "data:,on_start",
        "http://",
    ]
    file.write_text("\n".join(lines))

    status, out, err = run("push", "news", "--file", str(file))

    assert (status, out) == (1, "2 new, 0 merged, 0 ignored, 6 rejected\n")
    assert [line.split(": ")[1] for line in err.splitlines()] == [f"{file}:{number}" for number in (1, 3, 4, 5, 6, 8)]
    assert err.splitlines()[1] == (
        f"taskqueue push: {file}:3: 'nonsense' is not a URL, which begins with a scheme such as https:"
    )
    assert run("push", "news", "nonsense")[2].startswith("taskqueue push: argument 1: 'nonsense' is not a URL")


def test_with_any_everything_that_has_a_scheme_is_pushed(run: Run) -> None:
    status, out, err = run("push", "news", "--any-scheme", "mailto:ann@a", "s3://bucket/key", "nonsense")

    assert (status, out) == (1, "2 new, 0 merged, 0 ignored, 1 rejected\n")
    assert "argument 3" in err


def test_a_pushed_task_may_have_a_taskid_and_a_body(run: Run) -> None:
    run("push", "news", "data:,on_start", "--taskid", "start", "--save", '{"page": 1}')
    run("push", "news", "http://a/", "--body", "false")

    assert '"save": {"page": 1}' in run("task", "show", "news", "start")[1]
    assert "false" in run("task", "show", "news", "http://a/")[1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("http://a/", "http://b/", "--taskid", "x"), "--taskid is that of one task: name one URL"),
        (("-", "--taskid", "x"), "--taskid is that of one task: name one URL"),
        (("http://a/", "--save", "1", "--body", "2"), "say --save or --body, not both"),
        (("http://a/", "--save", "text"), "not JSON: "),
    ],
)
def test_options_of_push_that_do_not_fit_are_refused(run: Run, options: tuple[str, ...], says: str) -> None:
    status, _, err = run("push", "news", *options)

    assert status == 2
    assert says in err


def test_what_the_daemon_rejects_is_named_by_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('\n{"bad\nhttp://a/\n')

    run("project", "set", "news", "max_queue=1")
    run("push", "news", "http://full/")

    status, out, err = run("push", "news", "--file", str(file))

    assert status == 1
    assert out == "0 new, 0 merged, 0 ignored, 2 rejected\n"
    assert f'taskqueue push: {file}:3: project "news" is full: max_queue is 1' in err


def test_a_reason_that_many_tasks_are_rejected_for_is_said_once(run: Run) -> None:
    run("project", "set", "news", "max_queue=2")

    status, out, err = run("push", "news", *(f"http://a/{n}" for n in range(30)))

    assert (status, out) == (1, "2 new, 0 merged, 0 ignored, 28 rejected\n")
    assert err.splitlines() == [
        'taskqueue push: argument 3 (and 19 more): project "news" is full: max_queue is 2',
        "taskqueue push: and 8 more were rejected",
    ]


class EndlessUrls(io.RawIOBase):
    """Pipe that repeats one url without end."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:10] = b"http://a/\n"
        return 10


def test_a_push_to_an_unknown_project_stops_and_says_so_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(EndlessUrls())))

    status, out, err = run("push", "ghost", "-")

    assert (status, out) == (1, "")
    assert err.startswith('taskqueue: project: "ghost" is unknown; ')
    assert err.count("\n") == 1


def test_tasks_come_from_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"http://a/\nhttp://b/\n")))

    assert run("push", "news", "-")[:2] == (0, "2 new, 0 merged, 0 ignored, 0 rejected\n")


def test_interrupting_a_push_is_no_traceback(url: str) -> None:
    command = [*COMMAND, "push", "news", "-"]
    with Forked[str](command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert it.stdin is not None
        assert it.stderr is not None
        print('{"bad', file=it.stdin, flush=True)
        it.stdin.write("x" * 100_000)
        assert "stdin:1: " in it.stderr.readline()
        it.send_signal(signal.SIGINT)

        assert it.wait(WAIT_SECONDS) == 130
        assert "Traceback" not in it.stderr.read()


def test_one_time_is_for_all_lines_that_say_none(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    lines = [
        "http://a/",
        '{"url": "http://b/", "exetime": "2095-12-01T08:00:00+01:00"}',
        '{"url": "http://c/", "delay": 60}',
    ]
    file.write_text("\n".join(lines))

    assert run("push", "news", "--file", str(file), "--at", "2090-01-31T12:00Z")[:2] == (
        0,
        "3 new, 0 merged, 0 ignored, 0 rejected\n",
    )

    due = {row["url"]: row["at"] for row in map(json.loads, run(*LIST_DELAYED)[1].splitlines())}
    assert (due["http://a/"], due["http://b/"]) == (3789547200.0, 3973561200.0)
    assert time.time() - 3600 < due["http://c/"] < time.time() + 61


def test_a_time_that_is_none_is_named_by_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('http://a/\n{"url": "http://b/", "exetime": "soon"}\n')

    status, out, err = run("push", "news", "--file", str(file), "--delay", "12h")

    assert (status, out) == (1, "1 new, 0 merged, 0 ignored, 1 rejected\n")
    assert err.startswith(f'taskqueue push: {file}:2: exetime: "soon" is no time, such as ')
    assert counts(run)["delayed"] == 1


def test_two_times_for_all_are_one_too_many(run: Run) -> None:
    status, _, err = run("push", "news", "http://a/", "--at", "2090-01-31", "--delay", "5m")

    assert status == 2
    assert "say --at or --delay, not both" in err


def test_tasks_that_wait_are_moved_by_a_filter(run: Run) -> None:
    run("push", "news", "http://a/1", "http://a/2", "http://b/1", "--delay", "12h")

    out = run("task", "reschedule", "news", "--at", "2090-01-31T12:00Z", "--url-glob", "http://a/*", "--yes")[1]

    assert out.startswith("rescheduled 2 tasks of 3 scanned (operation ")
    rows = map(json.loads, run(*LIST_DELAYED)[1].splitlines())
    assert [row["url"] for row in rows if row["at"] == 3789547200.0] == ["http://a/1", "http://a/2"]
    number = out.split("operation ")[1].rstrip(")\n")
    assert "new time" in run("operation", "show", number)[1]


def test_tasks_that_wait_are_moved_by_pushing_them_with_force_update(run: Run) -> None:
    run("push", "news", "http://a/", "--at", "2090-01-31T12:00Z")

    out = run("push", "news", "http://a/", "--at", "2091-01-31T12:00Z", "--force-update")[1]

    assert out == "0 new, 0 merged, 1 replaced, 0 ignored, 0 rejected\n"
    [row] = map(json.loads, run(*LIST_DELAYED)[1].splitlines())
    assert row["at"] == 3821083200.0


def test_pushed_tasks_may_expire_and_be_written_canonically(run: Run) -> None:
    run("push", "news", "HTTP://Site/?b=2&a=1#top", "--canonical", "--expires-in", "1h")

    assert "expires " in run("task", "show", "news", "http://site/?a=1&b=2")[1]


def test_pushed_tasks_may_name_their_slot_and_come_again_as_often_as_their_pages_change(run: Run) -> None:
    run("push", "news", "http://a/", "--slot", "a-shop", "--recrawl", "1h", "30d")

    shown = run("task", "show", "news", "http://a/")[1].splitlines()

    assert [line.split(maxsplit=1) for line in map(str.rstrip, shown) if line.startswith(("slot", "recrawl"))] == [
        ["slot", "a-shop"],
        ["recrawl", "every 1 h to 30 d"],
    ]


# ------------------------------------------------------------------------------------------------ slot


def test_a_host_is_one_slot_however_its_urls_spell_it_and_takes_as_many_tasks_as_it_may(run: Run, url: str) -> None:
    run("project", "set", "news", "slot.by=host", "slot.delay=1000", "slot.max_tasks=2")
    run("slot", "set", "news", "bücher.example", "--max-tasks", "3")
    spellings = ["http://bücher.example/1", "http://xn--bcher-kva.example/2", "http://b%C3%BCcher.example/3"]

    out = run("push", "news", *spellings, "http://BÜCHER.example/4")[1]

    assert out.startswith("3 new, ")
    assert out.endswith(" 1 rejected\n")
    with Client(url) as client:
        assert [task.url for task in client.select(5, timeout=WAIT_SECONDS)] == spellings[:1]
        slot = json.loads(run("slot", "show", "news", "bücher.example", "--json")[1])["slot"]
    assert (slot["name"], slot["processing"], slot["ready"]) == ("xn--bcher-kva.example", 1, 2)
    assert (slot["taken"], slot["max_tasks"]) == (3, 3.0)
    shown = run("slot", "show", "news", "xn--bcher-kva.example")[1]
    assert "3 of 3 (set by a person)" in shown


# ------------------------------------------------------------------------------------------------ project


def test_a_setting_holds_at_once_and_is_shown_with_who_said_it(run: Run) -> None:
    status, out, _ = run("project", "set", "news", "rate=0.5", "retry_delay=30,1m")

    assert status == 0
    assert out == "news: rate=0.5 (was 5), retry_delay=30,60 (was 30,3600,21600,43200,86400)\n"
    shown = run("project", "show", "news")[1]
    assert "project set" in next(line for line in shown.splitlines() if line.startswith("rate "))


def test_unset_brings_the_config_file_back(run: Run) -> None:
    run("project", "set", "news", "rate=1", "burst=7")

    assert run("project", "unset", "news", "rate")[1] == "news: rate=5 (was 1)\n"
    assert run("project", "unset", "news")[1] == "news: burst=3 (was 7)\n"
    assert run("project", "unset", "news", "rate")[2] == (
        'taskqueue: rate: was not set by "project set" in project "news"\n'
    )


def test_a_key_of_a_table_is_set_and_unset_by_its_name(run: Run) -> None:
    said = "slot.delay=2", "keep.failed=30d", "fetch.proxy=a:1", 'slot.patterns.*.org={"delay": "5m"}'

    assert run("project", "set", "news", *said)[1] == (
        "news: slot.delay=2 (was 1), 'slot.patterns.*.org={\"delay\": 300.0}', keep.failed=2592000 (was inf), "
        "fetch.proxy=a:1\n"
    )
    assert run("project", "unset", "news", "slot.delay", "slot.patterns.*.org", "fetch.proxy")[1] == (
        'news: slot.delay=1 (was 2), slot.patterns.*.org removed (was {"delay": 300.0}), '
        "fetch.proxy removed (was a:1)\n"
    )
    assert run("project", "set", "made", "slot.by=host", "rate=inf")[1] == "made: made; slot.by=host, rate=inf\n"
    assert "slot.dealy is not a setting; did you mean delay" in run("project", "set", "news", "slot.dealy=2")[2]


def test_a_project_shows_who_said_each_of_its_settings(daemon: DaemonFactory, run: Run) -> None:
    it = daemon(
        defaults={"burst": 7, "rate": 2, "fetch.proxy": "a:1"},
        projects={"blog": {"group": "papers", "fetch.timeout": 5}, "shop": {"bucket": "shared"}},
        buckets={"shared": {"rate": 3}},
    )
    run("project", "set", "blog", "retries=5", "--daemon", it.url)

    shown = run("project", "show", "blog", "--daemon", it.url)[1]
    said = {words[0]: words[1:-1] for words in map(str.split, shown.splitlines()) if len(words) > 2}
    of_shop = run("project", "show", "shop", "--daemon", it.url)[1].splitlines()

    assert said["retries"] == ["project", "set"]
    assert said["group"] == ["config", "file"]
    assert (said["burst"], said["rate"]) == (["[defaults]"], ["[defaults]"])
    assert (said["fetch.proxy"], said["fetch.timeout"]) == (["[defaults]"], ["config", "file"])
    assert said["weight"] == ["default"]
    assert ["rate", "bucket", "inf"] in map(str.split, of_shop)


def test_setting_something_says_whether_it_made_a_project_or_changed_nothing(run: Run) -> None:
    assert run("project", "set", "blog", "rate=2", "group=papers")[1] == "blog: made; rate=2, group=papers\n"
    assert run("project", "set", "blog", "rate=2")[1] == "blog: nothing changed\n"


@pytest.mark.parametrize("setting", ["burst=0", "speed=1", "retries=0.5", "rate=-1", "rate=fast"])
def test_a_setting_that_the_daemon_refuses_is_one_line_that_names_it(run: Run, setting: str) -> None:
    status, out, err = run("project", "set", "news", setting)

    assert (status, out) == (2, "")
    assert err.startswith("taskqueue")
    assert setting.partition("=")[0] in err
    assert err.count("\n") == 1


def test_projects_are_paused_resumed_stopped_and_started(run: Run) -> None:
    for action, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("start", "running")):
        status, out, err = run("project", action, "news")
        assert (status, out.strip().split(", ")[0], err) == (0, f"news: {state}", "")
        assert f" {state} " in run("project", "list")[1]


def test_who_starts_a_project_is_told_its_pace(run: Run) -> None:
    said = run("project", "start", "news", "fast")[1].splitlines()

    assert said == [
        "news: running, at most 3 tasks at once, then 5/s (rate=5 burst=3)",
        "fast: running, as fast as fetchers take tasks (rate=inf burst=3)",
    ]


def test_settings_may_be_texts_and_tables(run: Run) -> None:
    active = "22:00-06:00 Europe/Berlin"

    status, out, _ = run("project", "set", "news", "group=papers", f"active={active}", 'fetch={"proxy": "a:1"}')

    assert status == 0
    assert out == f"news: group=papers, 'active={active}', fetch.proxy=a:1\n"
    assert "fetch.proxy" in run("project", "show", "news")[1]
    assert run("project", "unset", "news", "fetch.proxy")[1] == "news: fetch.proxy removed (was a:1)\n"


def last_operation(run: Run) -> str:
    """Return the id of the newest operation."""
    return run("operation", "list")[1].splitlines()[1].split()[0]


def test_settings_of_a_group_are_changed_together_and_logged_in_one_line(run: Run) -> None:
    run("project", "set", "blog", "group=others", "rate=20")
    run("project", "set", "shop", "group=others", "rate=7")

    assert run("project", "set", "--group", "others", "rate=5") == (
        0, "group others, 2 projects: rate=5 (was 20, 7)\n", ""
    )  # fmt: skip
    status, out, err = run("project", "set", "--group", "others", "burst=5", "bucket=none")
    assert (status, out) == (2, "")
    assert '(project "blog"; none of the group is changed)' in err

    newest = run("log", "shop")[1].splitlines()[-1]
    assert " ".join(newest.split()).endswith("project set (group others), 2 projects: rate=5 (was 20, 7)")


def test_a_pause_for_a_time_is_told_with_its_end_and_a_resume_comes_before_it(run: Run) -> None:
    run("project", "start", "news")
    status, said, _ = run("project", "pause", "news", "--for", "10m")
    assert (status, said.startswith("news: paused until 20")) == (0, True)
    until = said.removeprefix("news: ").strip()

    assert until in " ".join(run("status")[1].split())
    assert until.removeprefix("paused until ") in run("project", "show", "news")[1]
    assert "it resumes in" in run("why", "news")[1]

    assert run("project", "resume", "news") == (0, "news: running\n", "")
    assert "paused until" not in run("status")[1]


def test_all_projects_are_paused_and_resumed_in_one_line(run: Run) -> None:
    run("project", "start", "news")
    run("project", "set", "blog", "group=others")
    run("project", "stop", "blog")

    count = len(run("project", "list")[1].splitlines()) - 1
    paused = f"{count - 1} project{'s' * (count > 2)}"
    left = f"{paused}, left 1 as they were"
    assert run("project", "pause", "--all") == (0, f"paused {left}\n", "")
    assert run("project", "resume", "--all") == (0, f"resumed {left}\n", "")
    status, said, _ = run("project", "pause", "--all", "--for", "1h")
    assert (status, said.startswith(f"paused {paused} until 20"), said.count("\n")) == (0, True, 1)
    assert said.endswith("; 1 stays as it was (stopped, or paused until resume)\n")
    newest = " ".join(run("log")[1].splitlines()[-1].split())
    assert f"project pause (all), {paused} (" in newest

    run("project", "pause", "--all")
    newest = run("log")[1].splitlines()[-1]
    assert re.search(r"\bpaused for \d+ s more; operation", newest)
    nothing = f"paused 0 projects; {count} stay as they were (stopped, or paused until resume)\n"
    assert run("project", "pause", "--all", "--for", "1h") == (0, nothing, "")


def test_a_pause_that_is_too_long_is_refused_with_the_longest(run: Run) -> None:
    status, _, err = run("project", "pause", "news", "--for", "1000d")

    assert (status, "'--for': at most 115d" in err) == (2, True)


def test_a_group_is_paused_listed_and_deleted_as_one(run: Run) -> None:
    for name in ("blog", "shop"):
        run("project", "set", name, "group=others")

    assert run("project", "stop", "blog")[0] == 0
    assert run("project", "pause", "--group", "others") == (0, "paused 1 project, left 1 as they were\n", "")
    assert run("project", "start", "--group", "others") == (0, "started 2 projects\n", "")
    assert run("project", "pause", "--group", "others") == (0, "paused 2 projects\n", "")
    assert "outcome paused 2 projects" in " ".join(run("operation", "show", last_operation(run))[1].split())

    listed = run("project", "list", "--group", "others")[1].splitlines()[1:]
    assert [line.split()[:2] for line in listed] == [["blog", "paused"], ["shop", "paused"]]
    assert run("project", "delete", "--group", "others", "--yes")[1] == "deleted 2 projects\n"


GROUP_COMMANDS = [
    ("status",), ("stats",), ("project", "list"), ("project", "pause"), ("project", "delete", "--yes"),
    ("task", "retry", "--state", "failed", "--yes"),
]  # fmt: skip


@pytest.mark.parametrize("command", GROUP_COMMANDS, ids=" ".join)
def test_a_group_without_projects_is_the_same_error_everywhere(run: Run, command: tuple[str, ...]) -> None:
    assert run(*command, "--group", "none") == (1, "", 'taskqueue: group: no project belongs to a group "none"\n')


def test_the_status_of_a_group_has_the_fetchers_that_may_take_its_tasks(
    run: Run, worker: Callable[..., Forked[str]]
) -> None:
    run("project", "set", "blog", "group=others")
    run("push", "news", "http://site/other")
    worker("crawler:crawl", "news")
    wait_for(run, success=1)

    assert "No fetcher asks for tasks of these." in run("status", "--group", "others")[1]
    assert json.loads(run("status", "--group", "others", "--json")[1])["fetchers"] == []
    run("project", "set", "news", "group=papers")
    assert len(json.loads(run("status", "--group", "papers", "--json")[1])["fetchers"]) == 1


def test_what_can_be_done_with_some_projects_is_done(run: Run) -> None:
    status, out, err = run("project", "stop", "ghost", "news")

    assert (status, out) == (1, "news: stopped\n")
    assert "ghost" in err


def test_clearing_drops_what_is_to_do_and_resetting_all(run: Run) -> None:
    run("push", "news", "http://a/", "http://b/")
    run("task", "cancel", "news", "http://a/")

    assert run("project", "clear", "news", "--yes") == (0, "news: cleared\n", "")
    assert (counts(run)["ready"], counts(run)["cancelled"]) == (0, 1)
    assert run("project", "reset", "news", "--yes") == (0, "news: reset\n", "")
    assert counts(run)["cancelled"] == 0


def test_a_question_says_how_many_tasks_go(run: Run, url: str) -> None:
    run("push", "news", "http://a/", "http://b/")

    seen, status = answered("n", "project", "clear", "news")

    assert "Clear news: drop 2 tasks to do? [y/N]" in seen
    assert status == 1
    assert counts(run)["ready"] == 2


def test_deleting_asks_and_without_anybody_to_ask_it_does_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    status, _, err = run("project", "delete", "news")

    assert status == 2
    assert "--yes" in err
    assert "news" in run("project", "list")[1]


def test_deleting_with_yes_deletes(run: Run) -> None:
    run("project", "start", "old")

    assert run("project", "delete", "old", "--yes") == (0, "old: deleted\n", "")

    assert "old" not in run("project", "list")[1]


def test_a_project_that_is_unknown_is_one_line(run: Run) -> None:
    for action in ("show", "pause", "delete"):
        status, _, err = run("project", action, "ghost", *(["--yes"] if action == "delete" else []))

        assert status == 1
        assert "ghost" in err
        assert err.count("\n") == 1


# ------------------------------------------------------------------------------------------------ cron


def test_a_cron_entry_is_set_listed_and_removed(run: Run) -> None:
    when = ("--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--missed", "once")

    out = run("cron", "set", "news", "daily", *when, "--url", "http://a/", "--body", '{"process": {"depth": 1}}')[1]

    assert out.startswith("news: daily runs next at 2")
    for shown in (run("cron", "list")[1], run("cron", "list", "news")[1], run("project", "show", "news")[1]):
        assert "0 3 * * * Europe/Berlin" in shown
    assert run("cron", "remove", "news", "daily") == (0, "news: daily removed\n", "")
    assert run("cron", "list") == (0, "none\n", "")


def test_a_cron_entry_is_set_in_a_project_that_is_there_and_removed_only_once(run: Run) -> None:
    status, out, err = run("cron", "set", "ghost", "daily", "--every", "1d")
    assert (status, out) == (1, "")
    assert err.startswith('taskqueue: project: "ghost" is unknown; ')
    assert "ghost" not in run("project", "list")[1]

    assert run("cron", "remove", "news", "daily")[2] == (
        'taskqueue: cron.daily: there is no entry "daily" in project "news"\n'
    )


def test_a_cron_entry_that_can_not_be_read_is_one_line(run: Run) -> None:
    status, out, err = run("cron", "set", "news", "daily", "--cron", "0 25 * * *")

    assert (status, out) == (2, "")
    assert "cron.daily" in err
    assert err.count("\n") == 1


# ------------------------------------------------------------------------------------------------ task


def test_a_task_is_shown_by_its_url_or_its_taskid(run: Run) -> None:
    run("push", "news", "http://a/#top", "--delay", "3600", "--priority", "4")

    by_url = run("task", "show", "news", "http://a/")[1]
    taskid = next(line.split()[1] for line in by_url.splitlines() if line.startswith("taskid"))

    assert "delayed" in by_url
    assert "http://a/#top" in by_url
    assert run("task", "show", "news", taskid)[1] == by_url


@pytest.mark.parametrize("name", ["data:,on_start", "data:," + "x" * 200, "mailto:ann@a"])
def test_a_url_of_any_scheme_names_its_task(run: Run, name: str) -> None:
    run("push", "news", "--any-scheme", name, "--delay", "3600")

    assert name in run("task", "show", "news", name)[1]
    assert "is due" in run("why", "news", name)[1]
    assert run("task", "retry", "news", name) == (0, f"{name}: will run now\n", "")
    assert run("task", "cancel", "news", name) == (0, f"{name}: cancelled\n", "")


def test_a_taskid_wins_over_a_url_of_the_same_text(run: Run) -> None:
    run("push", "news", "data:,a")
    run("push", "news", "http://b/", "--taskid", "data:,a")

    assert "http://b/" in run("task", "show", "news", "data:,a")[1]
    assert "data:,c" in run("task", "show", "news", "data:,c")[2]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\xa2\xff\x61", r'"\\xffa"'),
        (b"\x81\xc4\x01k\x01", "{b'k': 1}"),
        (b"\x81\x81\x01\x02\x03", "5 bytes that can't be shown"),
    ],
)
def test_a_body_of_any_bytes_is_shown(run: Run, url: str, peer: PeerFactory, body: bytes, shown: str) -> None:
    asking = peer(url)
    head = msgpack.packb({"type": "new-task", "v": 1, "session": asking.session, "n": 1, "project": "news"})
    task = b"\x83" + b"".join(map(msgpack.packb, ("taskid", "a", "url", "http://a/", "body"))) + body
    asking.send_raw(b"\x86" + head[1:] + msgpack.packb("tasks") + b"\x91" + task)
    assert asking.receive()["outcomes"] == ["new"]

    status, out, err = run("task", "show", "news", "a")

    assert (status, err) == (0, "")
    assert shown in out


def test_a_delayed_task_can_be_run_now_or_cancelled(run: Run) -> None:
    run("push", "news", "http://a/", "http://b/", "--delay", "3600")

    assert run("task", "retry", "news", "http://a/") == (0, "http://a/: will run now\n", "")
    assert run("task", "cancel", "news", "http://b/") == (0, "http://b/: cancelled\n", "")

    found = counts(run)
    assert (found["ready"], found["delayed"], found["cancelled"]) == (1, 0, 1)


def test_a_task_that_is_unknown_is_said_so(run: Run) -> None:
    status, _, err = run("task", "retry", "news", "none")
    assert (status, err) == (1, "none: unknown\n")

    status, _, err = run("task", "show", "news", "none")
    assert status == 1
    assert err.count("\n") == 1


def test_tasks_are_listed_by_state_page_by_page(run: Run) -> None:
    run("push", "news", *(f"http://site/{n}" for n in range(7)), "--delay", "3600")

    status, out, err = run("task", "list", "news", "--state", "delayed", "--limit", "5")

    assert [line.split()[-1] for line in out.splitlines()[1:]] == [f"http://site/{n}" for n in range(5)]
    assert (status, err) == (0, "There are more; --limit shows them.\n")
    rows = run("task", "list", "news", "--state", "delayed", "--url-glob", "*/6", "--json")[1].splitlines()
    assert [json.loads(row)["url"] for row in rows] == ["http://site/6"]


def test_tasks_are_changed_by_a_filter_and_counted(run: Run) -> None:
    run("push", "news", "http://a/1", "http://a/2", "http://b/1", "--delay", "3600")
    chosen = ("news", "--url-glob", "http://a/*")

    assert run("task", "cancel", *chosen, "--dry-run")[1].startswith("would cancel 2 tasks of 3 scanned (operation ")
    assert counts(run)["delayed"] == 3
    assert run("task", "cancel", *chosen, "--yes")[1].startswith("cancelled 2 tasks of 3 scanned (operation ")
    assert counts(run)["cancelled"] == 2
    shouted = ("news", "--url-glob", "HTTP://A/*", "--ignore-case", "--state", "cancelled")
    assert run("task", "retry", *shouted, "--dry-run")[1].startswith("would retry 2 tasks ")
    assert len(run("task", "list", *shouted, "--json")[1].splitlines()) == 2
    assert run("task", "retry", *chosen, "--state", "cancelled", "--yes")[1].startswith("retried 2 tasks ")
    assert run("task", "reprioritise", *chosen, "--priority", "9", "--yes")[1].startswith("reprioritised 2 tasks ")
    assert "priority  9" in run("task", "show", "news", "http://a/1")[1]


def test_tasks_in_all_states_are_listed_with_their_states(run: Run) -> None:
    run("push", "news", *(f"http://site/{n}" for n in range(3)), "--delay", "3600")
    run("push", "news", "http://site/now")
    run("task", "cancel", "news", "http://site/0")

    status, out, err = run("task", "list", "news")

    assert (status, err) == (0, "")
    assert [(row.split()[0], row.split()[-1]) for row in out.splitlines()[1:]] == [
        ("ready", "http://site/now"), ("delayed", "http://site/1"), ("delayed", "http://site/2"),
        ("cancelled", "http://site/0"),
    ]  # fmt: skip
    rows = [json.loads(row) for row in run("task", "list", "news", "--limit", "2", "--json")[1].splitlines()]
    assert [row["state"] for row in rows] == ["ready", "delayed"]


@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_a_filter_that_finds_nothing_says_how_many_match_in_other_states(run: Run, how: str) -> None:
    run("push", "news", "http://a/1", "http://a/2", "--delay", "3600")
    run("push", "news", "http://c/1")

    ready = "1 task of those that are ready matches, and will run anyway.\n"
    assert run("task", "retry", "news", "--url-glob", "http://c/*", how)[2] == ready
    run("task", "cancel", "news", "http://c/1")
    status, out, err = run("task", "retry", "news", "--url-glob", "http://a/*", how)
    assert (status, "no failed task matched (" in out) == (0, True)
    assert err == "But 2 tasks that are delayed would match: --state delayed\n"
    _, _, err = run("task", "cancel", "news", "--url-glob", "*/1", "--state", "ready", "--state", "blocked", how)
    assert err == "But 1 task that is delayed or processing would match: --state delayed --state processing\n"
    assert run("task", "retry", "news", "--url-glob", "http://b/*", how)[2] == ""
    assert run("task", "cancel", "news", "--url-glob", "http://b/*", how)[2] == ""
    assert counts(run)["delayed"] == 2


def test_a_filter_takes_a_group_and_what_is_old(run: Run) -> None:
    run("project", "set", "blog", "group=others")
    run("push", "blog", "http://a/")
    run("task", "cancel", "blog", "http://a/")
    chosen = ("--group", "others", "--state", "cancelled", "--dry-run")

    assert run("task", "retry", *chosen, "--until", "1h")[1].startswith("no cancelled task matched (1 ")
    assert run("task", "retry", *chosen, "--since", "1h")[1].startswith("would retry 1 task of 1 ")
    assert run("task", "retry", *chosen, "--until", "0s")[1].startswith("would retry 1 task of 1 ")


def test_a_bulk_operation_asks_with_the_number_of_tasks(run: Run, url: str) -> None:
    run("push", "news", "http://a/1", "http://a/2")

    seen, status = answered("y", "task", "cancel", "news", "--url-glob", "*/1")

    assert "Cancel 1 task? [y/N]" in seen
    assert "cancelled 1 task of 2 scanned" in seen
    assert status == 0


def test_an_operation_can_be_left_alone_and_looked_at_later(run: Run) -> None:
    run("push", "news", "http://a/")

    number = run("task", "cancel", "news", "--url-glob", "*", "--yes", "--no-wait")[1].strip()
    while "ended  " not in (shown := run("operation", "show", number)[1]):
        select.select([], [], [], 0.02)

    assert f"cancelled 1 task of 1 scanned (operation {number})" in shown
    assert "filter    --url-glob '*'" in shown
    assert number in run("operation", "list")[1]


def answered(answer: str, *arguments: str) -> tuple[str, int]:
    """Answer a command's question on a terminal; return what the terminal shows, and the exit status."""
    terminal, inside = pty.openpty()
    environment = os.environ | {"TERM": "dumb", "COLUMNS": "80"}
    with Forked[bytes]([*COMMAND, *arguments], stdin=inside, stdout=inside, stderr=inside, env=environment) as it:
        os.close(inside)
        seen = b""
        while b"[y/N]" not in seen:
            seen += os.read(terminal, 65536)
        os.write(terminal, f"{answer}\n".encode())
        while more := _read(terminal):
            seen += more
        status = it.wait(WAIT_SECONDS)
    os.close(terminal)
    return seen.decode(), status


# ------------------------------------------------------------------------------------------------ wait, why, stats


def test_waiting_ends_with_the_crawl(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/start")
    worker("crawler:crawl", "news")

    assert run("project", "wait", "news", "--timeout", str(WAIT_SECONDS))[:2] == (
        0,
        "",
    )  # shown on a slow machine only

    assert counts(run)["success"] == 2
    assert "finished  once" in run("project", "show", "news")[1]


def test_waiting_gives_up_when_it_is_told_to(run: Run) -> None:
    run("push", "news", "http://site/", "--delay", "3600")

    status, out, err = run("project", "wait", "news", "--timeout", "0.1")

    assert (status, out) == (1, "")
    assert err == "taskqueue project wait: news has not finished, 1 task to go: 1 waits for its time\n"


def test_waiting_does_not_wait_for_retries_if_it_is_told_to(run: Run, worker: Callable[..., Any]) -> None:
    run("project", "set", "news", "retry_delay=1d", "fail_pause_num=0")
    run("push", "news", "http://site/")
    worker("crawler:stumble", "news")

    assert run("project", "wait", "news", "--ignore-retries", "--timeout", str(WAIT_SECONDS))[:2] == (0, "")

    told = "1 waits for a retry, up to 1 d by the table"
    assert told in run("status")[1]
    assert ["how", "far", *f"1 task to go: {told}".split()] in [
        line.split() for line in run("project", "show", "news")[1].splitlines()
    ]
    status, _, err = run("project", "wait", "news", "--timeout", "0.1")
    assert (status, err) == (1, f"taskqueue project wait: news has not finished, 1 task to go: {told}\n")


def test_waiting_for_a_task_says_by_its_status_how_it_ended(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/good")
    run("push", "news", "http://site/bad", "--delay", "3600")
    worker("crawler:crawl", "news")

    assert run("task", "wait", "news", "http://site/good", "--timeout", str(WAIT_SECONDS)) == (0, "", "")
    not_over = "taskqueue task wait: http://site/bad: not finished, delayed\n"
    assert run("task", "wait", "news", "http://site/bad", "--timeout", "0.1") == (1, "", not_over)
    run("task", "cancel", "news", "http://site/bad")
    cancelled = "taskqueue task wait: http://site/bad: cancelled\n"
    assert run("task", "wait", "news", "http://site/bad") == (4, "", cancelled)
    status, out, err = run("task", "wait", "news", "http://site/none")
    assert (status, out) == (1, "")
    assert err.endswith('is unknown in project "news"\n')


def test_waiting_for_a_task_that_has_failed_for_good_is_no_success(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/", "--retries", "0")
    worker("crawler:stumble", "news")

    assert run("task", "wait", "news", "http://site/") == (3, "", "taskqueue task wait: http://site/: failed\n")


def test_waiting_on_a_terminal_shows_how_many_are_left(run: Run) -> None:
    run("push", "news", "http://site/")
    terminal, inside = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with Forked[bytes]([*COMMAND, "project", "wait", "news"], stdin=inside, stderr=inside, env=environment) as it:
        os.close(inside)
        seen = b""
        while b"news: 1 task to go" not in seen:
            seen += os.read(terminal, 65536)
        run("task", "cancel", "news", "http://site/")
        while more := _read(terminal):
            seen += more

        assert it.wait(WAIT_SECONDS) == 0
    os.close(terminal)
    assert seen.endswith(b"news has finished\r\n")


def test_why_is_one_sentence(run: Run) -> None:
    run("project", "stop", "news")

    status, out, _ = run("why", "news")

    assert status == 0
    assert "stopped" in out
    assert out.count("\n") == 1


def test_why_without_a_project_says_which_ones_stand_still_by_cause(run: Run) -> None:
    assert run("why") == (0, "Nothing stands still.\n", "")
    run("push", "news", "http://site/")
    run("project", "set", "blog", "rate=0")
    run("push", "blog", "http://site/")
    run("project", "set", "idle", "rate=0")

    status, out, _ = run("why")

    assert status == 0
    assert out.splitlines()[0] == "no fetcher that could take more (1):"
    assert out.splitlines()[1] == '  project "news" has tasks to dispatch, but no fetcher is connected'
    assert out.splitlines()[2] == "a rate of 0 (1):"
    assert "idle" not in out
    assert json.loads(run("why", "--json")[1]).keys() == {"fetchers", "rate"}


def test_status_says_which_projects_stand_still(run: Run) -> None:
    run("push", "news", "http://site/")
    run("project", "set", "blog", "rate=0")
    run("push", "blog", "http://site/")
    run("project", "set", "night", "active=03:00-03:01")

    out = " ".join(run("status")[1].split())

    assert 'project "news" has tasks to dispatch, but no fetcher is connected' in out
    assert 'project "blog" has a rate of 0; set another one with: taskqueue project set blog rate=1' in out
    assert 'project "night"' not in out


def test_status_shows_the_projects_that_are_named(run: Run) -> None:
    shown = run("status", "news")[1]

    assert "news" in shown
    assert "blog" not in shown
    assert "No fetcher asks for tasks of these." in shown
    assert [each["name"] for each in json.loads(run("status", "news", "--json")[1])["projects"]] == ["news"]
    assert run("status", "ghost")[0] == 1
    assert "without --group" in run("status", "--follow", "--limit", "1")[2]


def test_changes_of_some_projects_are_told_together_each_once(run: Run) -> None:
    run("project", "set", "news", "group=papers")
    run("project", "set", "blog", "group=papers")
    run("project", "set", "shop", "rate=3")
    run("project", "set", "--group", "papers", "rate=2")

    told = [json.loads(line) for line in run("log", "blog", "news", "--limit", "3", "--json")[1].splitlines()]

    assert [each["number"] for each in told] == sorted({each["number"] for each in told})
    assert [(each["project"], each["projects"]) for each in told] == [
        ("news", []), ("blog", []), ("", ["blog", "news"]),
    ]  # fmt: skip


def test_an_override_of_a_slot_is_removed_by_its_key_or_as_a_whole(run: Run) -> None:
    run("project", "set", "news", "slot.by=host")
    run("slot", "set", "news", "example.org", "--delay", "10s", "--max-processing", "3", "--block-until", "2h")

    assert run("slot", "unset", "news", "example.org", "max-processing", "block_until")[0] == 0
    said = json.loads(run("slot", "show", "news", "example.org", "--json")[1])["chosen"]
    assert said == {"delay": 10.0}
    assert run("slot", "unset", "news", "example.org")[0] == 0
    assert json.loads(run("slot", "show", "news", "example.org", "--json")[1])["chosen"] == {}
    assert '"brust" is not a key of a slot; did you mean burst?' in run("slot", "unset", "news", "x", "brust")[2]


def test_several_projects_are_waited_for_until_the_last_one_has_finished(run: Run) -> None:
    run("project", "start", "blog")
    assert run("project", "wait", "news", "blog") == (0, "", "")
    run("push", "blog", "http://site/")

    status, _, err = run("project", "wait", "news", "blog", "--timeout", "0")

    assert (status, err.count("\n")) == (1, 1)
    assert "blog has not finished" in err


def test_several_projects_are_shown_one_after_the_other(run: Run) -> None:
    run("project", "start", "blog")
    shown = run("project", "show", "news", "blog")[1]

    assert shown.index("news") < shown.index("blog")
    assert [json.loads(line)["name"] for line in run("project", "show", "blog", "news", "--json")[1].splitlines()] == [
        "blog", "news",
    ]  # fmt: skip


def test_tasks_in_some_states_are_listed_state_by_state(run: Run) -> None:
    run("push", "news", "http://a/", "http://b/")
    run("push", "news", "http://c/", "--delay", "1h")
    run("task", "cancel", "news", "http://b/")

    both = ("task", "list", "news", "--state", "cancelled", "--state", "delayed")
    listed = [json.loads(line) for line in run(*both, "--json")[1].splitlines()]

    assert {(each["url"], each["state"]) for each in listed} == {("http://b/", "cancelled"), ("http://c/", "delayed")}
    assert [line.split()[0] for line in run(*both)[1].splitlines()] == ["state", *(each["state"] for each in listed)]


def test_status_says_that_it_has_not_asked_about_all_projects_that_may_stand_still(run: Run, url: str) -> None:
    with Client(url) as client:
        for name in [f"a{number:02}" for number in range(20)]:
            client.projects.set(name, {"slot": {"by": "host"}})
            client.push(name, "http://site/")
            client.slots.set(name, "site", block_until=float("inf"))
    run("project", "set", "last", "rate=0")
    asked = run("status")[1]
    run("push", "last", "http://site/")

    assert "taskqueue why" not in asked
    assert "which others stand still, and why: taskqueue why" in run("status")[1]


def test_stats_tell_of_a_window_of_a_group_or_of_all_time(run: Run) -> None:
    run("push", "news", "http://a/", "http://b/")
    run("project", "set", "blog", "group=others")

    assert [line.split()[:2] for line in run("stats")[1].splitlines()[1:]] == [["blog", "·"], ["news", "2"]]
    assert run("stats", "news", "--window", "all")[1].splitlines()[1].split()[:2] == ["news", "2"]
    assert "news" not in run("stats", "--group", "others")[1]
    assert json.loads(run("stats", "--json")[1])["projects"][1]["windows"]["5m"]["new"] == 2
    assert run("stats", "ghost")[2] == 'taskqueue: project "ghost" is unknown; `taskqueue status` lists them\n'


def test_the_pages_of_a_run_are_counted_listed_and_changed_by_its_job(run: Run, url: str) -> None:
    run("push", "news", "http://a/", "--job", "monday")
    run("push", "news", "http://other/")
    with Client(url) as client:
        (start,) = client.select(1, projects=["news"])
        client.done(start, ["http://a/1", "http://a/2"])
        counts = client.stats.job("news", "monday")

    assert (start.schedule.job, counts.ready, counts.success) == ("monday", 2, 1)
    assert run("stats", "--job", "monday")[1].splitlines()[1].split()[:4] == ["news", "2", "·", "·"]
    told = json.loads(run("stats", "news", "--job", "monday", "--json")[1])
    assert (told["job"], told["projects"][0]["counts"]["ready"]) == ("monday", 2)
    rows = [json.loads(line) for line in run("task", "list", "news", "--job", "monday", "--json")[1].splitlines()]
    assert {row["url"] for row in rows} == {"http://a/", "http://a/1", "http://a/2"}
    assert run("task", "cancel", "news", "--job", "monday", "--yes")[1].startswith("cancelled 2 tasks of 4 ")
    assert run("task", "show", "news", "http://a/1")[1].split("job")[1].split()[0] == "monday"
    assert "--job monday" in run("operation", "list")[1]
    assert run("stats", "--job", "tuesday") == (0, "", 'No task has job "tuesday".\n')
    assert run("stats", "--job", "monday", "--history")[0] == 2
    assert "job" in run("push", "news", "http://b/", "--job", "no name")[2]


# ------------------------------------------------------------------------------------------------ status


def test_status_shows_every_project_however_many_there_are(run: Run) -> None:
    names = [f"p{n:03}" for n in range(120)]
    run("project", "start", *names)

    seen = [project["name"] for project in json.loads(run("status", "--json")[1])["projects"]]

    assert seen == ["news", *names]


def test_status_as_json_has_every_field_even_those_that_are_zero(run: Run, url: str) -> None:
    found = json.loads(run("status", "--json")[1])

    assert list(found) == [
        "daemon", "version", "epoch", "uptime_seconds", "counts", "totals", "projects", "fetchers", "shell",
    ]  # fmt: skip
    assert found["daemon"] == url
    assert found["counts"] == dict.fromkeys(get_args(TaskState), 0)
    assert found["projects"][0]["settings"]["max_queue"] == "inf"


def test_status_says_that_the_disk_is_nearly_full(daemon: DaemonFactory, capsys: Capture) -> None:
    it = daemon(min_free="1024 TiB")

    assert main(["status", "--daemon", it.url]) == 0

    assert "The store's disk is nearly full: no tasks are accepted or dispatched." in capsys.readouterr().out


def test_the_daemon_tells_of_itself(run: Run, url: str) -> None:
    run("push", "news", "http://example.org/")

    status, out, _ = run("daemon", "show")
    assert (status, out.splitlines()[0].split()) == (0, ["daemon", url])
    assert re.search(r"^turns +\S+, \S+ a second; half within [\d.]+ m?s, 99 of 100 within", out, flags=re.M)
    found = json.loads(run("daemon", "show", "--json")[1])
    assert found["daemon"] == url
    assert found["shell"]["writes"] == sum(found["histograms"]["commit_seconds"]["counts"]) >= 1
    assert found["has_room"] is True


@pytest.mark.usefixtures("own")
def test_a_list_without_anything_says_none(run: Run) -> None:
    run("project", "delete", "news", "--yes")
    run("project", "start", "blog")

    for command in (("cron", "list"), ("task", "list", "blog", "--state", "failed"), ("operation", "list")):
        assert run(*command) == (0, "none\n", "")


def test_that_all_invariants_hold_is_said(run: Run) -> None:
    assert run("daemon", "verify") == (0, "All invariants hold.\n", "")
    status, out, err = run("daemon", "verify", "--json")
    assert (status, json.loads(out)["problems"], err) == (0, [], "")


def test_a_shared_bucket_is_shown_with_its_pace(daemon: Callable[..., Any], capsys: Capture) -> None:
    it = daemon(projects={"news": {"bucket": "site"}}, buckets={"site": {"rate": 5, "burst": 7}})

    main(["project", "show", "news", "--daemon", it.url])
    assert "shared bucket  site: rate 5/s, burst 7, 7.0 tokens" in capsys.readouterr().out
    main(["status", "--daemon", it.url])
    assert "site 5/s" in capsys.readouterr().out


def test_status_for_people_names_address_projects_and_fetchers(run: Run, url: str) -> None:
    out = run("status")[1]

    assert out.startswith(url)
    assert "news" in out
    assert "No fetchers." in out


def test_nobody_reading_on_is_no_error(url: str) -> None:
    command = f"{' '.join(COMMAND)} status --json | true"

    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=WAIT_SECONDS, check=True)

    assert done.stderr == ""


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


# ------------------------------------------------------------------------------------------------ work


def test_a_handler_runs_on_tasks_and_what_it_returns_is_pushed(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/start", "http://site/other")

    it = worker("crawler:crawl", "news", "-j", "2")
    wait_for(run, success=3, ready=0)

    assert run("status")[1].splitlines()[-1].split()[-1] == "news"
    it.send_signal(signal.SIGTERM)
    assert it.wait(WAIT_SECONDS) == 0


def test_what_a_handler_raises_is_told_by_the_task(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/a", "--retries", "0")

    worker("crawler:stumble", "news")
    wait_for(run, failed=1)

    shown = run("task", "show", "news", "http://site/a")[1]
    fields = dict(
        line.strip().split(maxsplit=1) for line in shown.splitlines() if line.startswith(("error ", "in full "))
    )
    assert fields["error"] == "ValueError: no title on http://site/a"
    assert fields["in"].split(maxsplit=1)[1] == "Traceback (most recent call last):"
    assert "outcome" in shown


def test_a_project_that_has_paused_itself_says_why_in_one_line(run: Run, worker: Callable[..., Any]) -> None:
    run("project", "set", "news", "fail_pause_num=1")
    run("push", "news", "http://site/a", "--retries", "0")
    worker("crawler:stumble", "news")
    run("project", "wait", "news")

    for shown in (run("status")[1], run("project", "show", "news")[1], run("why", "news")[1]):
        assert "1 failure in a row, the last one: ValueError: no title on http://site/a" in shown


def test_tasks_are_tried_again_by_how_they_failed(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/a", "--retries", "0")
    worker("crawler:stumble", "news")
    run("project", "wait", "news")

    assert run("task", "retry", "news", "--error-glob", "*timeout*", "--yes")[1].startswith(
        "no failed task matched (1 "
    )
    assert run("task", "retry", "news", "--error-glob", "*no title*", "--yes")[1].startswith("retried 1 task of 1 ")


def test_interrupting_a_worker_is_no_traceback(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/a")
    it = worker("crawler:crawl", "news")
    wait_for(run, success=1)

    it.send_signal(signal.SIGINT)

    assert "Traceback" not in it.communicate(timeout=WAIT_SECONDS)[1]
    assert it.returncode == 0


def test_a_module_that_is_broken_is_one_line_with_its_place(
    run: Run, crawler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(crawler)
    (crawler / "broken_module.py").write_text("import json\n\nwidth = lenght([])\n")

    status, _, err = run("work", "broken_module:crawl", "news")

    assert status == 1
    assert "can't import broken_module: NameError: name 'lenght' is not defined" in err
    assert "broken_module.py, line 3)" in err
    assert err.count("\n") == 1


# ------------------------------------------------------------------------------------------------ daemon


def test_the_scheduler_runs_with_its_options_until_it_is_interrupted(tmp_path: Path) -> None:
    options = ["--bind", "tcp://127.0.0.1:*", "--store", str(tmp_path / "store"), "--durability", "none"]
    with Forked[str]([*COMMAND, "daemon", "start", *options], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        line = it.stdout.readline()
        it.send_signal(signal.SIGINT)

        assert it.wait(WAIT_SECONDS) == 0
    assert f"store={tmp_path / 'store'} durability=none" in line


def test_an_address_that_is_taken_is_one_line(url: str, tmp_path: Path) -> None:
    command = [*COMMAND, "daemon", "start", "--bind", url, "--store", str(tmp_path / "store")]

    done = run_forked(command, timeout=WAIT_SECONDS)

    assert done.returncode == 1
    assert f"can't listen on {url}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_a_terminal_can_not_write_is_no_error(run: Run) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    run("push", "news", "http://é/", "--delay", "60")

    done = subprocess.run(
        [*COMMAND, "task", "show", "news", "http://é/"], stdout=subprocess.PIPE, env=environment, text=True, check=True
    )

    assert "http://?/" in done.stdout
