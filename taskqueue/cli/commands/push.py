"""``taskqueue push``: tasks from the command line, from a file or from a pipe."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, TextIOWrapper
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, get_args

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name, taskids_of
from taskqueue.cli.input.packed_tasks import SUFFIX
from taskqueue.cli.input.stdin import STDIN, stdin_bytes
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.protocol.choices import NEW_OUTCOMES, ParentFailure
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.cli.input.task_lines import TaskLines
    from taskqueue.client.tasks.pushes import Pushed

FAILURES: Final = get_args(ParentFailure)

COMPLAINT_CHARS: Final = 1000
"""Of what is said about a line; what it quotes may be as long as the line."""

UNKNOWN: Final = "project: "
"""What a reason begins with that is about the project, not about a task of it."""
ALWAYS: Final = ("new", "merged", "ignored", "rejected")
"""Outcomes that are told even if there were none."""

CARRIED: Final = ("save", "body")
"""Options whose values are the task's own."""


def _json(written: str) -> Any:
    """What an option says in JSON.

    Raises:
        click.BadParameter: it is none.
    """
    try:
        return json.loads(written)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}; a text needs its quotes, too: '\"text\"'") from None
    except RecursionError:
        raise click.BadParameter("nested too deep") from None


@click.command()
@click.argument("project", type=project_name)
@click.argument("urls", metavar="[URL... | -]", nargs=-1)
@click.option("--file", "-f", metavar="FILE", type=click.Path(), help="File of tasks, one a line, or *.msgpack.")
@click.option("--taskid", help="Taskid of the one url, in place of that made from it.")
@click.option("--save", type=_json, metavar="JSON", help="Value that the handler gets as task.save.")
@click.option("--body", type=_json, metavar="JSON", help="Value that the handler gets as task.body.")
@click.option("--priority", type=int, help="Priority; larger runs first.")
@click.option("--at", "exetime", type=times.future, metavar="DURATION|TIME", help="Earliest time of the run.")
@click.option("--delay", type=times.seconds, metavar="DURATION", help="Least time from arrival to the run.")
@click.option("--retries", type=int, help="Further attempts after a failure.")
@click.option("--age", type=times.seconds, metavar="DURATION", help="Time for which a success stays good.")
@click.option("--slot", metavar="NAME", help="Slot whose pace the tasks keep to.")
@click.option(
    "--recrawl",
    type=times.seconds,
    nargs=2,
    metavar="DURATION DURATION",
    help="Bounds of the time between recrawls, such as 1h 30d.",
)
@click.option("--itag", help="Mark; another one than last time runs finished tasks.")
@click.option("--force-update", is_flag=True, help="Precedence over stored tasks; finished ones run again.")
@click.option("--expires-at", type=times.moment, metavar="TIME", help="Latest time of the run.")
@click.option("--expires-in", type=times.after_now, metavar="DURATION", help="Latest time of the run, from now.")
@click.option("--depends-on", metavar="TASK", multiple=True, help="Task that has to succeed before (repeatable).")
@click.option(
    "--on-parent-failure",
    type=click.Choice(FAILURES),
    help="Consequence if such a task fails.  [default: fail]",
)
@click.option("--canonical", is_flag=True, help="One spelling for all urls of a page.")
@click.option("--any-scheme", is_flag=True, help="URLs of every scheme, not only http, https and data.")
@json_option
@daemon_options
def push(
    project: str,
    urls: tuple[str, ...],
    file: str | None,
    depends_on: tuple[str, ...],
    any_scheme: bool,
    as_json: bool,
    daemon: Daemon,
    **schedule: Any,
) -> int:
    """Push tasks to a project.

    Tasks are urls, or the lines of a file, or - for stdin. A line of a file is a url or a JSON object with url and any
    of taskid, priority, exetime, delay, retries, age, itag, auto_recrawl, force_update, cancel, timeout, expires_at,
    slot, recrawl, canonical, fetch, process, save, body, depends_on, on_parent_failure. What is wrong with a line is
    said with its number; the others are pushed. The exit status is 1 if a task was rejected. A url is one of http or
    https, or data:, such as data:,on_start; --any-scheme takes everything that has a scheme.

    A file whose name ends in .msgpack has such objects as MessagePack maps, one after the other; bodies go as the bytes
    that stand there, and it is read in less than half the time.

    What became of the tasks is counted: new, merged, ignored, rejected and, if there were any, other outcomes.

    What the options say is for all tasks but those whose lines say something of their own. A time in a line is unix
    seconds, or text such as "2027-01-31T18:00:00+01:00". With --force-update tasks that wait already are moved.

    That a task has expired is seen when its turn comes: instead of being handed out it ends as cancelled then.

    --canonical makes one task of urls that mean the same page: scheme and host in lower case, no port that goes without
    saying (http://site:80/), no fragment, the arguments of the query sorted.

    \b
    Example:
      taskqueue push news https://example.com/ https://example.com/about
      taskqueue push news --file tasks.jsonl --at "2027-01-31 18:00"
      taskqueue push news https://example.com/b --depends-on https://example.com/a
      taskqueue push news data:,on_start --taskid start --save '{"page": 1}'
      sort -u urls.txt | taskqueue push news -
    """
    from taskqueue.cli.input.task_lines import TaskLines

    said = {name: value for name, value in schedule.items() if value is not None and not _is_off(name, value)}
    if "expires_in" in said:
        said["expires_at"] = _only(said.pop("expires_in"), said.get("expires_at"))
    if "recrawl" in said:
        said["recrawl"] = dict(zip(("min", "max"), said["recrawl"], strict=True))
    if "exetime" in said and "delay" in said:
        raise click.UsageError("say --at or --delay, not both")
    if "save" in said and "body" in said:
        raise click.UsageError("say --save or --body, not both")
    if "taskid" in said and (file or len(urls) != 1 or urls == (STDIN,)):
        raise click.UsageError("--taskid is that of one task: name one url")
    _see_that_they_live(said.get("expires_at"))
    with _source(urls, file) as source, daemon.client() as client:
        if depends_on:
            said["depends_on"] = taskids_of(client, project, depends_on)
        lines = TaskLines(source.name, source.lines, said, _complain, any_scheme=any_scheme)
        with _progress(source) as progress:
            pushed = client.push_many(project, lines, progress=lambda counts: _go_on(counts, progress))
    _tell_rejected(lines, pushed)
    counts = _counts(pushed, lines.bad)
    if as_json:
        print_object(counts)
    else:
        say(", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name in ALWAYS))
    return 1 if pushed.rejected or lines.bad else 0


def _is_off(name: str, value: Any) -> bool:
    """It is a flag that was not given; a body may well be false."""
    return value is False and name not in CARRIED


def _only(expires: float, also: float | None) -> float:
    if also is not None:
        raise click.UsageError("say --expires-at or --expires-in, not both")
    return expires


def _see_that_they_live(expires_at: float | None) -> None:
    if expires_at is not None and expires_at <= time.time():
        raise click.UsageError(f"tasks that expire at {times.local(expires_at)} have expired already")


class Source(NamedTuple):
    """Where tasks come from.

    Attributes:
        name: what stands before the number of a line.
        total: bytes or lines that there are; None if nobody knows.
        read: how many of them have been read.
    """

    name: str
    lines: Iterable[str | bytes]
    total: int | None = None
    read: Callable[[], int] = int


@contextmanager
def _source(urls: tuple[str, ...], file: str | None) -> Iterator[Source]:
    if bool(urls) == bool(file):
        raise click.UsageError("name urls, or a file with --file, or - for stdin")
    if not all(url.strip() for url in urls):
        raise click.UsageError("one of the urls is empty")
    if file and file != STDIN:
        with open(file, "rb") as lines:
            yield _of_packed(file, lines) if file.endswith(SUFFIX) else _of_file(file, lines)
    elif file or urls == (STDIN,):
        yield Source("stdin:", _text(stdin_bytes()))
    else:
        yield Source("argument ", urls)


def _of_packed(file: str, tasks: BufferedReader) -> Source:
    from taskqueue.protocol.codec import MAX_MESSAGE_BYTES
    from taskqueue.protocol.value_stream import READ_BYTES, values

    longest = MAX_MESSAGE_BYTES + READ_BYTES
    return Source(f"{file}: task ", values(tasks, longest), os.fstat(tasks.fileno()).st_size or None, tasks.tell)


def _of_file(file: str, lines: BufferedReader) -> Source:
    size = os.fstat(lines.fileno()).st_size
    # A named pipe has neither a size nor a position.
    return Source(f"{file}:", _text(lines), size, lines.raw.tell) if size else Source(f"{file}:", _text(lines))


def _text(file: BinaryIO) -> Iterator[str]:
    """Lines, without the mark that some editors begin files with; what is no utf-8 is complained about in its place."""
    from taskqueue.protocol.codec import MAX_MESSAGE_BYTES
    from taskqueue.protocol.value_stream import LONGEST_TIMES, lines

    text = TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape")
    try:
        yield from lines(text, LONGEST_TIMES * MAX_MESSAGE_BYTES)
    finally:
        with suppress(ValueError):  # whoever opened the file has closed it
            text.detach()


@contextmanager
def _progress(source: Source) -> Iterator[Callable[[Pushed], object] | None]:
    """Show how far a push is by a bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from taskqueue.terminal.screen import Screen

    columns = (BarColumn(), TextColumn("{task.fields[tasks]:,} tasks"), TimeElapsedColumn())
    with Progress(*columns, console=Screen(err=True), transient=True) as bar:
        row = bar.add_task("", total=source.total, tasks=0)
        yield lambda pushed: bar.update(row, completed=source.read(), tasks=pushed.total)


def _go_on(pushed: Pushed, progress: Callable[[Pushed], object] | None) -> None:
    """Show how far it is.

    Raises:
        click.ClickException: all was in vain, and so will be the rest: there is no such project.
    """
    reasons = {_parted(error)[1] for error in pushed.errors}
    if pushed.rejected == pushed.total and len(reasons) == 1 and (reason := reasons.pop()).startswith(UNKNOWN):
        raise click.ClickException(reason)
    if progress is not None:
        progress(pushed)


def _parted(error: str) -> tuple[int, str]:
    """``task 7: why`` as 7 and why."""
    place, _, reason = error.removeprefix("task ").partition(": ")
    return int(place), reason


def _complain(problem: str) -> None:
    said = problem if len(problem) <= COMPLAINT_CHARS else f"{problem[:COMPLAINT_CHARS]} …"
    say(f"taskqueue push: {said}", err=True)


def _tell_rejected(lines: TaskLines, pushed: Pushed) -> None:
    """The reasons of the daemon, each once, with the first of the lines that it is about."""
    places: dict[str, list[int]] = {}
    for place, reason in map(_parted, pushed.errors):
        places.setdefault(reason, []).append(place)
    for reason, about in places.items():
        more = f" (and {len(about) - 1:,} more)" if len(about) > 1 else ""
        _complain(f"{lines.where(about[0])}{more}: {reason}")
    if unnamed := pushed.rejected - len(pushed.errors):
        _complain(f"and {unnamed:,} more were rejected")


def _counts(pushed: Pushed, bad: int) -> dict[str, int]:
    """How many tasks each outcome had; what could not be read was rejected."""
    return {name: getattr(pushed, name) + (bad if name == "rejected" else 0) for name in NEW_OUTCOMES}
