"""The command as a whole: every command explains itself, every error is one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from taskqueue.cli.input.stdin import require_terminal
from taskqueue.cli.main import NOUNS, main, taskqueue
from taskqueue.this_process import build_kind, is_compiled

SHIPPED = Path(__file__).parents[3] / "conf" / "taskqueue.toml"
UNREACHABLE = ["--daemon", "tcp://127.0.0.1:9", "--timeout", "0.05"]


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from walk(child, (*path, name))


EVERY = list(walk(taskqueue))

PHRASE = re.compile(
    r"(?!(So|Such|Those|These|It|That|They|Not|Of|Or|And|But|Which|Whose|What|Who|How|Where|When|To|Only|Don't) )"
    r"[A-Z].*[^. ]\."
)
"""Help text that begins with a capital letter, has a noun of its own, and ends with a period."""


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = taskqueue
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def shown_at_80_columns(command: click.Command) -> str:
    return command.get_help(click.Context(command, terminal_width=80))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_the_help_of_every_command_has_an_example_of_it(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0

    shown = capsys.readouterr().out
    assert f"Example:\n    taskqueue {' '.join(path)}".rstrip() in shown


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_the_examples_of_every_command_fit_into_80_columns(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*path, "--help"])

    examples = capsys.readouterr().out.partition("Example:")[2].partition("Options:")[0]
    assert max(map(len, examples.splitlines())) <= 80


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_the_short_help_of_every_command_is_a_sentence_that_no_table_cuts_off(path: tuple[str, ...]) -> None:
    command = command_at(path)
    short = command.get_short_help_str(limit=1000)

    assert 0 < len(short) <= 45 or not path
    assert short[0].isupper()
    assert short.endswith(".")
    assert "..." not in shown_at_80_columns(command).partition("Commands:")[2]


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_the_help_of_every_option_is_a_short_phrase_with_a_noun(path: tuple[str, ...]) -> None:
    options = [each for each in command_at(path).params if isinstance(each, click.Option)]

    helps = [(option.help or "").partition("  [default:")[0] for option in options]

    assert [text for text in helps if not PHRASE.fullmatch(text) or len(text) > 60] == []


def test_the_first_page_says_of_every_group_which_commands_it_has() -> None:
    for name, said in NOUNS.items():
        group = command_at((name,))
        assert isinstance(group, click.Group)
        named = said.removesuffix(" …").split(", ")
        assert set(named) <= set(group.commands)
        assert said.endswith(" …") or set(named) == set(group.commands)


def test_scheduler_is_another_name_of_daemon_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler", "--help"]) == 0
    assert capsys.readouterr().out.partition("\n")[2].startswith("\n  Run the daemon.")


TELLING = {"list", "show", "status", "stats", "failures", "why", "log", "push", "retry", "cancel"}


@pytest.mark.parametrize("path", [path for path in EVERY if path and path[-1] in TELLING], ids=" ".join)
def test_every_command_that_tells_something_tells_it_to_programs(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0

    assert "--json" in capsys.readouterr().out


def test_the_help_loads_neither_zeromq_nor_the_client_nor_rich_nor_what_packages_say_of_themselves() -> None:
    heavy = "{'zmq', 'rich', 'rocksdict', 'msgspec', 'importlib.metadata', 'taskqueue.client', 'taskqueue.server'}"
    code = (
        f"import sys; from taskqueue.cli.main import main; main(['--help']); sys.exit(bool({heavy} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    assert capsys.readouterr().out == f"taskqueue {version('taskqueue-scheduler')}, {build_kind(is_compiled())}\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fly"], "taskqueue: No such command 'fly'. See `taskqueue --help`."),
        (
            ["stats", "--windo", "5m"],
            "No such option '--windo'. Did you mean '--window'? See `taskqueue stats --help`.",
        ),
        (["push"], "taskqueue push: Missing argument 'PROJECT'. See `taskqueue push --help`."),
        (["push", "news"], "taskqueue push: name URLs, or a file with --file, or - for stdin."),
        (["push", "news", "--file", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["project", "set", "news", "rate"], '"rate" is not of the form name=value, such as rate=5'),
        (["project", "set", "news", "rate=fast"], 'rate must be a number of at least 0 or inf, not "fast"'),
        (["push", "news", "http://a/", ""], "one of the URLs is empty"),
        (["push", "bad name", "http://a/"], '"bad name" is not a project name: 1 to 64 ASCII letters'),
        (["project", "show", ""], '"" is not a project name'),
        (["project", "show", ".."], '".." is not a project name'),
        (["work", "json:loads", "ne/ws"], '"ne/ws" is not a project name'),
        (["work", "nonsense", "news"], '"nonsense" is not of the form module:function'),
        (["work", "no.such.module:crawl", "news"], "no.such.module"),
        (["work", "./shop/crawler.py:crawl", "news"], "names a file; name its module: shop.crawler:crawl. See"),
        (["work", "json:laods", "news"], 'json has no function "laods"; did you mean loads or load?'),
        (["work", "taskqueue.defaults:crawl", "news"], 'taskqueue.defaults has no function "crawl"; there are none'),
        (["config", "check", "/no/such/file"], "/no/such/file: can't be read"),
        (["daemon", "start", "-c", "/no/such/file"], "/no/such/file: can't be read"),
        (["demo", "--site", "/"], "no index.html there"),
        (["top"], "top needs a terminal"),
        (["push", "news", "http://a/", "--expires-at", "soon"], '"soon" is no time, such as "2027-01-31 18:00"'),
        (["push", "news", "http://a/", "--expires-in", "5w"], '"5w" is no duration, such as 90s, 5m, 12h or 2d'),
        (["push", "news", "http://a/", "--expires-in", "5m", "--expires-at", "1"], "--expires-at or --expires-in, not"),
        (["project", "set", "news", "fetch=proxy"], "fetch is not JSON"),
        (["project", "stop"], "name projects, or their group with --group"),
        (["project", "pause"], "name projects, or their group with --group, or --all"),
        (["project", "pause", "news", "--group", "papers"], "name projects, or their group with --group, or --all"),
        (["project", "resume", "news", "--all"], "name projects, or their group with --group, or --all"),
        (["project", "pause", "--all", "--for", "0s"], '"0s" is no time at all'),
        (["project", "clear", "--group", "a b"], '"a b" is not a group name'),
        (["project", "set", "news"], "say what to set, such as rate=5"),
        (["project", "set", "rate=5"], '"rate=5" is not a project name'),
        (["project", "set", "--group", "papers", "news", "rate=5"], '"news" is not of the form name=value'),
        (["project", "wait", "news", "--timeout", "long"], '"long" is no duration'),
        (["cron", "set", "news", "daily"], "say when with --cron, or how often with --every"),
        (
            ["cron", "set", "news", "daily", "--cron", "0 3 * * *", "--every", "5m"],
            "say when with --cron, or how often",
        ),
        (["cron", "set", "news", "daily", "--every", "5m", "--body", "{"], "--body is not JSON"),
        (["cron", "set", "news", "daily", "--every", "5m", "--keep-flows", "5"], "--keep-flows goes with --flow"),
        (["cron", "set", "news", "daily", "--every", "5m", "--overlap", "skip"], "--overlap goes with --flow"),
        (
            ["stats", "--job", "monday", "--window", "1h"],
            "say --job or --window, not both: a job's tasks are counted as",
        ),
        (["stats", "--job", "monday", "--sort", "failed"], "say --job or --sort, not both"),
        (["stats", "--job", "monday", "--history"], "say --job or --history, not both"),
        (["cron", "set", "news", "daily", "--every", "5m", "--flow", "f", "--url", "u"], "--flow goes without --url"),
        (
            ["task", "retry", "news"],
            "name tasks, or choose them with --state, --url-glob, --error-glob, --since, --until",
        ),
        (["task", "retry", "news", "id", "--state", "failed"], "name tasks, or choose them by a filter, not both"),
        (["task", "cancel", "news", "id", "--dry-run"], "name tasks, or choose them by a filter, not both"),
        (["task", "cancel", "--state", "ready"], "name a project, or a group with --group"),
        (
            ["task", "cancel", "news", "--group", "papers", "--state", "ready"],
            "name a project, or a group with --group",
        ),
        (["task", "cancel", "news", "--state", "ready"], "there is no terminal to ask at"),
        (["task", "reprioritise", "news", "--priority", "5"], "name tasks, or choose them with --state"),
        (["task", "reschedule", "news", "--delay", "5"], "choose tasks with --state"),
        (["task", "reschedule", "news", "--url-glob", "*"], "say when, with --at or --delay"),
        (
            ["task", "reschedule", "news", "--url-glob", "*", "--at", "2090-01-01", "--delay", "5"],
            "say when, with --at or",
        ),
        (["task", "reschedule", "news", "--url-glob", "*", "--at", "soon"], '"soon" is no time'),
        (["task", "list", "news", "--daemon", "https://a/*"], "--url-glob chooses tasks"),
        (
            ["operation", "show", "last"],
            '"last" is no number or id of an operation; `taskqueue operation list` has them',
        ),
        (["operation", "show", str(2**63)], " is no number or id of an operation"),
        (["push", "news", "http://a/", "--expires-at", "2001-01-01"], "have expired already"),
        (["push", "news", "http://a/", "--expires-in", "0s"], "have expired already"),
        (["push", "news", "http://a/", "--expires-in", "99999999999d"], "from now lies too far in the future"),
        (["push", "news", "http://a/", "--expires-at", "999999999999"], '"999999999999" lies too far in the future'),
        (["task", "cancel", "news", "--until", "99999d"], '"99999d" is longer than anything can be old'),
    ],
)
def test_an_error_is_one_line_that_says_what_is_wrong(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) in (1, 2)

    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["status", "--json"],
        ["push", "news", "http://site/"],
        ["project", "list"],
        ["project", "show", "news"],
        ["project", "set", "news", "rate=1"],
        ["project", "unset", "news"],
        ["project", "pause", "news"],
        ["project", "pause", "--all", "--for", "5m"],
        ["project", "resume", "news"],
        ["project", "stop", "news"],
        ["project", "start", "news"],
        ["project", "delete", "news", "--yes"],
        ["task", "show", "news", "id"],
        ["task", "retry", "news", "id"],
        ["task", "cancel", "news", "id"],
        ["project", "clear", "news", "--yes"],
        ["project", "reset", "--group", "papers", "--yes"],
        ["task", "list", "news", "--state", "failed"],
        ["task", "retry", "news", "--state", "failed", "--yes"],
        ["task", "reprioritise", "news", "--priority", "5", "--url-glob", "*", "--dry-run"],
        ["task", "reschedule", "news", "--delay", "5m", "--url-glob", "*", "--dry-run"],
        ["cron", "list"],
        ["cron", "set", "news", "daily", "--every", "1d"],
        ["cron", "remove", "news", "daily"],
        ["operation", "list"],
        ["operation", "show", "1"],
        ["stats"],
        ["fetcher", "list"],
        ["daemon", "verify"],
        ["log"],
        ["failures"],
        ["why", "news"],
    ],
    ids=" ".join,
)
def test_a_daemon_that_does_not_answer_is_named_and_how_to_start_it(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *UNREACHABLE]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("taskqueue: no answer from tcp://127.0.0.1:9")
    assert "`taskqueue daemon start`" in err
    assert err.count("\n") == 1


def test_the_environment_names_the_daemon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", "tcp://127.0.0.1:10")

    main(["status", "--timeout", "0.05"])

    assert "tcp://127.0.0.1:10" in capsys.readouterr().err


def test_an_address_that_is_none_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--daemon", "7400"]) in (1, 2)

    err = capsys.readouterr().err
    assert "7400" in err
    assert err.count("\n") == 1


def test_every_problem_of_a_config_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[daemon]\nbind = 7\n[projects.news]\nburst = "many"\nspeed = 1\n')

    assert main(["config", "check", str(file)]) == 2

    err = capsys.readouterr().err
    assert err.count("\n") == 3
    assert f"taskqueue: {file}: projects.news.burst must be " in err


@pytest.mark.parametrize("command", [["config", "check"], ["daemon", "start", "--config"]], ids=" ".join)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[store]\ndurability = "interval"\nhandout = "synced"\n',
            'store.handout = "synced" needs store.durability = "commit", not "interval"',
        ),
        ('[limits]\nmemory = "64 MiB"\n', "limits.memory = 64 MiB is too little for advanced.queue_bytes = "),
        (
            '[daemon]\nbind = ["tcp://127.0.0.1:*", "ipc://@taskqueue"]\nkeys = "access.json"\n',
            "daemon.bind: ipc://@taskqueue has no file with a mode, so all users of this machine reach it, and with "
            "daemon.keys only some may come in; name a path, such as ",
        ),
    ],
)
def test_settings_of_a_config_that_contradict_each_other_are_named_with_their_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str, command: list[str]
) -> None:
    file = tmp_path / "both.toml"
    file.write_text(text)

    assert main([*command, str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"taskqueue: {file}: {problem}")


def test_a_setting_that_contradicts_another_is_named_with_its_variable_or_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "some.toml"
    file.write_text('[store]\nhandout = "synced"\n')
    start = ["daemon", "start", "--durability", "none"]

    assert main([*start, "--config", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"taskqueue: {file} and --durability: store.handout = ")

    monkeypatch.setenv("TASKQUEUE_STORE_HANDOUT", "synced")
    assert main(start) == 2
    assert capsys.readouterr().err.startswith("taskqueue: TASKQUEUE_STORE_HANDOUT and --durability: store.handout = ")


def test_init_writes_the_config_file_that_has_every_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["config", "init"]) == 0

    assert capsys.readouterr().out == (
        "taskqueue.toml: written; `taskqueue daemon start -c taskqueue.toml` starts a daemon with it\n"
    )
    assert Path("taskqueue.toml").read_bytes() == SHIPPED.read_bytes()
    assert main(["config", "check", "taskqueue.toml"]) == 0


def test_init_writes_to_stdout_for_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "init", "-"]) == 0

    assert capsys.readouterr().out == SHIPPED.read_text()


def test_init_leaves_a_file_alone_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[defaults]\nrate = 7\n")

    assert main(["config", "init", str(file)]) == 1

    out, err = capsys.readouterr()
    assert (out, err) == ("", f"taskqueue: {file} is there already, and stays as it is; name another file\n")
    assert file.read_text() == "[defaults]\nrate = 7\n"


def test_a_good_config_is_called_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "good.toml"
    file.write_text("[projects.news]\nrate = 5\n")

    assert main(["config", "check", str(file)]) == 0

    assert capsys.readouterr().out == f"{file}: good, 1 project: news\n"


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_an_argument_that_is_not_utf_8_is_named_by_its_place(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "http://a/\udcfc"]) == 2

    assert f"argument {len(path) + 1} is not UTF-8: b'http://a/\\xfc'" in capsys.readouterr().err


def test_a_variable_that_is_not_utf_8_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", "tcp://\udcfc:7400")

    assert main(["status"]) == 2

    assert "TASKQUEUE_DAEMON is not UTF-8: b'tcp://\\xfc:7400'" in capsys.readouterr().err


def test_how_long_commands_wait_for_an_answer_may_stand_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKQUEUE_TIMEOUT", "soon")

    assert [main(command) for command in (["status"], ["daemon", "show"])] == [2, 2]

    told = "'--timeout' (env var: 'TASKQUEUE_TIMEOUT'): \"soon\" is no duration"
    assert capsys.readouterr().err.count(told) == 2


def test_a_locale_without_letters_changes_no_argument_and_names_the_file_that_it_has_no_letters_for() -> None:
    posix = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PATH": os.environ["PATH"]}
    code = "import sys; from taskqueue.cli.main import main; sys.exit(main())"

    ended = subprocess.run(
        [sys.executable, "-c", code, "push", "p", "--file", "/no/ü"], env=posix, capture_output=True, check=False
    )

    assert ended.returncode == 2
    assert b"the locale of this process knows only ascii; set LC_ALL=C.UTF-8" in ended.stderr


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["push", "p", "-"], "stdin is closed"),
        (["flow", "submit", "shop", "-"], "stdin is closed"),
        (["store", "import", "-", "--store", "none"], "stdin is closed"),
        (["top", *UNREACHABLE], "top needs a terminal"),
    ],
    ids=lambda part: part[0] if isinstance(part, list) else "",
)
def test_a_process_without_standard_input_is_told_so(
    command: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)

    assert main(command) in (1, 2)

    assert problem in capsys.readouterr().err


def test_a_process_without_standard_input_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(click.UsageError, match="there is no terminal to ask at"):
        require_terminal()
