"""The ``taskqueue`` command: find the module of a command, and turn every error into one line.

    0    it worked
    1    it did not: one line on stderr says what, where, and what to do
    2    the command was not understood, or a setting in it or in a config file is invalid
    77   the daemon does not let this client in, is not the one that its key is for, or the key may not do this
    130  Ctrl-C
    141  the reader of its output closed it early, as in ``taskqueue status | head -1``

``daemon start``, ``work`` and commands that wait have further ones: see docs/reference/errors.md.

The module of a noun is imported when one of its commands is called, and client, server and rich only inside of that
command, so that ``taskqueue --help`` answers at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Final, TextIO

import click

from taskqueue.cli.commands.completion import VARIABLE
from taskqueue.errors import (
    STATUSES,
    UNAUTHORISED,
    WRONG_SETTING,
    ConfigError,
    RequestRejected,
    SettingError,
    TaskQueueError,
    Unauthorised,
)
from taskqueue.terminal.lines import say, say_lines
from taskqueue.this_process import build_kind, is_compiled

DAILY: Final = {
    "push": "Push tasks to a project.",
    "work": "Run a handler on tasks: a fetcher.",
    "status": "Show projects, counts and fetchers.",
    "top": "Show projects and fetchers live.",
    "why": "Say why nothing is dispatched.",
    "stats": "Show attempts and times by period.",
    "failures": "Show failures by error, host or fetcher.",
    "log": "Show who changed what.",
    "demo": "Crawl a small site and show it live.",
    "completion": "Print a shell completion script.",
}
NOUNS: Final = {
    "daemon": "start, stop, reload, show, verify",
    "project": "list, show, set, pause, stop, wait …",
    "task": "list, show, retry, cancel, rerun, wait …",
    "slot": "list, show, set, unset",
    "flow": "submit, list, show, wait, cancel",
    "cron": "list, set, remove",
    "fetcher": "list, show, drain, resume",
    "operation": "list, show, wait, cancel, undo",
    "store": "init, show, check, backup, restore …",
    "config": "init, check, alerts, board",
    "web": "start",
    "key": "generate, authorise, set, list, may, revoke …",
}
COMMANDS: Final = {**DAILY, **NOUNS}
"""Short helps by command name, for groups those of their commands. A command is the function of that name."""

MODULES: Final = {
    "task": "tasks", "project": "projects", "fetcher": "fetchers", "slot": "slots", "flow": "flows",
    "operation": "operations", "top": "status", "key": "keys",
}  # fmt: skip
"""Modules by command name; other commands have modules of their own names."""

ALIASES: Final = {"scheduler": ("daemon", "start")}
"""Other names of commands; not listed."""

DISTRIBUTION: Final = "taskqueue-scheduler"
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

SPACE: Final = re.compile(r"[ \t\r\n]+")


class Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name, *verbs = ALIASES.get(cmd_name, (cmd_name,))
        if name not in COMMANDS:
            return None
        module = import_module(f"taskqueue.cli.commands.{MODULES.get(name, name)}")
        command: click.Command = getattr(module, name)
        return command.commands[verbs[0]] if verbs and isinstance(command, click.Group) else command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the tables of commands and of nouns with their verbs, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(DAILY.items()))
        with formatter.section("Nouns with commands of their own, such as `taskqueue project list`"):
            formatter.write_dl(list(NOUNS.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
# By the package's name: asking for its version takes a third of the time that a command takes to start.
@click.version_option(
    package_name=DISTRIBUTION, prog_name="taskqueue", message=f"%(prog)s %(version)s, {build_kind(is_compiled())}"
)
def taskqueue() -> None:
    """A durable task scheduler for web crawlers.

    TASKQUEUE_DAEMON names the daemon for all commands, such as tcp://127.0.0.1:7400. A DURATION is written 90s, 5m,
    1.5h or 2d, a TIME "2027-01-31 18:00", 18:00, yesterday, now or unix seconds.

    The exit status is 0 if it worked, 1 if it did not (a line on stderr says why), 2 if the command was not
    understood, or a setting is invalid, 77 if the daemon does not accept its key, or the key may not do this, 130
    after Ctrl-C, 141 if the reader of its output closed it early.

    \b
    Example:
      taskqueue daemon start
      taskqueue project set news rate=5 slot.by=host max_depth=20
      taskqueue push news https://example.com/
      taskqueue work crawler:crawl news --until-finished
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default with the process's arguments, and return its exit status."""
    _fill_standard_descriptors()
    _replace_unencodable(sys.stdout, sys.stderr)
    try:
        return _main(sys.argv[1:] if arguments is None else arguments)
    finally:
        if not _flush_output():
            # Else the interpreter tries again, and exits with 120.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fill_standard_descriptors() -> None:
    """Open the null device for standard streams that the process was started without.

    Otherwise a file of the store or a socket gets the descriptor of one, and a library's stderr goes into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)


def _main(arguments: Sequence[str]) -> int:
    try:
        _check_environment(os.environ)
        status = _run(_as_text(arguments))
        if sys.stdout is not None:
            sys.stdout.flush()  # what is wrong with it shows here and not when the interpreter ends
        return status
    except click.Abort:
        return INTERRUPTED
    except KeyboardInterrupt:
        say("", err=True)  # ends the line of the terminal's ^C
        return INTERRUPTED
    except BrokenPipeError:  # the reader has gone, as in ``taskqueue status | head -1``
        return BROKEN_PIPE
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # so rich leaves then
            return BROKEN_PIPE
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        say_lines(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        return _print_problems(_where(error), [f"{_sentence(error.format_message())} {_hint(error)}"], error.exit_code)
    except click.ClickException as error:
        return _print_problems("taskqueue", [error.format_message()], error.exit_code)
    except ConfigError as error:
        return _print_problems(
            "taskqueue", str(error).split("\n"), WRONG_SETTING if isinstance(error, SettingError) else 1
        )
    except Unauthorised as error:
        return _print_problems("taskqueue", [str(error)], UNAUTHORISED)
    except RequestRejected as error:
        return _print_problems("taskqueue", [_message(error)], STATUSES.get(error.code, 1))
    except (TaskQueueError, OSError) as error:
        return _print_problems("taskqueue", [_message(error)], 1)
    except UnicodeEncodeError as error:  # a file whose name has letters that this locale does not
        problem = f'"{error.object}": the locale of this process knows only {error.encoding}; set LC_ALL=C.UTF-8'
        return _print_problems("taskqueue", [problem], WRONG_SETTING)


def _run(arguments: Sequence[str]) -> int:
    """Run as ``Group.main`` does, but exit with a status of its own when a pipe breaks."""
    if instruction := os.environ.get(VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(taskqueue, {}, "taskqueue", VARIABLE, instruction)
    try:
        with taskqueue.make_context("taskqueue", list(arguments)) as context:
            return _exit_status(taskqueue.invoke(context))
    except click.exceptions.Exit as leaving:
        return leaving.exit_code


def _as_text(arguments: Sequence[str]) -> list[str]:
    """Arguments as UTF-8, the encoding of commands, URLs and taskids in every locale.

    Raises:
        click.UsageError: an argument is not UTF-8.
    """
    return [_decoded(f"argument {place}", argument) for place, argument in enumerate(arguments, 1)]


def _check_environment(environ: Mapping[str, str]) -> None:
    """Check the variables that commands read.

    Raises:
        click.UsageError: the value of one is not UTF-8.
    """
    for name, value in environ.items():
        if name.startswith("TASKQUEUE_"):
            _decoded(name, value)


def _decoded(name: str, text: str) -> str:
    octets = os.fsencode(text) if not text.isascii() else text.encode()
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise click.UsageError(f"{name} is not UTF-8: {octets!r}") from None


def _replace_unencodable(*streams: TextIO) -> None:
    """Write a question mark for characters that a stream can't encode, instead of failing."""
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _exit_status(returned: object) -> int:
    return returned if isinstance(returned, int) else 0


def _print_problems(where: str, problems: Sequence[str], status: int) -> int:
    for problem in problems:
        say(f"{where}: {SPACE.sub(' ', problem).strip()}", err=True)
    return status


def _where(error: click.UsageError) -> str:
    return error.ctx.command_path if error.ctx else "taskqueue"


def _sentence(message: str) -> str:
    return message if message.endswith(("?", "?)")) else f"{message.rstrip('.')}."


def _hint(error: click.UsageError) -> str:
    return f"See `{_where(error)} --help`."


def _message(error: TaskQueueError | OSError) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = error.filename or ("" if _flush_output() else "stdout")
        return f"{where}: {error.strerror}" if where else error.strerror
    return str(error)


def _flush_output() -> bool:
    """Whether stdout took what was printed; False after a full disk or a closed pipe, True without a stdout."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
