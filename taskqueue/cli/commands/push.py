"""``taskqueue push``: push tasks from the command line, a file or a pipe."""

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
from taskqueue.errors import UNAUTHORISED, RequestRejected
from taskqueue.protocol.choices import NEW_OUTCOMES, ParentFailure
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.cli.input.task_lines import TaskLines
    from taskqueue.client.tasks.pushes import Pushed

FAILURES: Final = get_args(ParentFailure)

COMPLAINT_CHARS: Final = 1000
"""Longest complaint about a line, in characters; it may quote the whole line."""

UNKNOWN: Final = "project: "
"""Beginning of a reason that is about the project rather than a task."""
ALWAYS: Final = ("new", "merged", "ignored", "rejected")
"""Outcomes that are printed even if their count is 0."""

CARRIED: Final = ("save", "body")
"""Options whose values belong to the task."""


def _json(written: str) -> Any:
    """Parse the JSON of an option.

    Raises:
        click.BadParameter: it is invalid.
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
@click.option("--taskid", help="Taskid of the one URL, in place of that made from it.")
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
@click.option("--repeat", type=int, help="Recrawls, at most.")
@click.option("--itag", help="Version of the page; a new one runs finished tasks.")
@click.option("--job", metavar="NAME", help="Job of the tasks and of all that they lead to.")
@click.option("--force-update", is_flag=True, help="Precedence over stored tasks; finished ones run again.")
@click.option("--expires-at", type=times.moment, metavar="TIME", help="Latest time of the run.")
@click.option("--expires-in", type=times.after_now, metavar="DURATION", help="Latest time of the run, from now.")
@click.option("--depends-on", metavar="TASK", multiple=True, help="Task that has to succeed before (repeatable).")
@click.option(
    "--on-parent-failure",
    type=click.Choice(FAILURES),
    help="Consequence if such a task fails.  [default: fail]",
)
@click.option("--canonical", is_flag=True, help="One spelling for all URLs of a page.")
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

    Tasks are URLs, or the lines of a file, or - for stdin. A line of a file is a URL or a JSON object with URL and any
    of taskid, priority, exetime, delay, retries, age, itag, auto_recrawl, force_update, cancel, timeout, expires_at,
    slot, recrawl, repeat, job, canonical, fetch, process, save, body, depends_on, on_parent_failure. Invalid lines are
    reported with their numbers; the others are pushed. The exit status is 1 if a task was rejected, 77 if the key may
    push none of them. URLs are http, https, or data:, such as data:,on_start; --any-scheme accepts every scheme.

    A file whose name ends in .msgpack has the same objects as MessagePack maps, one after the other; bodies are sent as
    unchanged bytes, and reading takes less than half the time.

    The command prints counts of outcomes: new, merged, ignored, rejected and, if there were any, others.

    Options apply to all tasks; a line's own keys win. A time in a line is unix seconds, or text such as
    "2027-01-31T18:00:00+01:00". With --force-update tasks that wait already are moved.

    A task that has expired when its turn comes is cancelled instead of dispatched.

    --canonical makes one task of URLs that lead to the same page: lower-case scheme and host, no default port
    (http://site:80/), no fragment, sorted query arguments.

    \b
    Example:
      taskqueue push news https://example.com/ https://example.com/about
      taskqueue push news --file tasks.jsonl --at "2027-01-31 18:00"
      taskqueue push news https://example.com/b --depends-on https://example.com/a
      taskqueue push news data:,on_start --taskid start --save '{"page": 1}'
      taskqueue push news https://example.com/ --job monday
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
        raise click.UsageError("--taskid is that of one task: name one URL")
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
    if pushed.forbidden and pushed.forbidden == pushed.total + lines.bad:
        return UNAUTHORISED
    return 1 if pushed.rejected or lines.bad else 0


def _is_off(name: str, value: Any) -> bool:
    """Whether a flag was not given; False is a valid body."""
    return value is False and name not in CARRIED


def _only(expires: float, also: float | None) -> float:
    if also is not None:
        raise click.UsageError("say --expires-at or --expires-in, not both")
    return expires


def _see_that_they_live(expires_at: float | None) -> None:
    if expires_at is not None and expires_at <= time.time():
        raise click.UsageError(f"tasks that expire at {times.local(expires_at)} have expired already")


class Source(NamedTuple):
    """Source of tasks.

    Attributes:
        name: prefix of line numbers.
        total: number of bytes or lines; None if unknown.
        read: number of them read so far.
    """

    name: str
    lines: Iterable[str | bytes]
    total: int | None = None
    read: Callable[[], int] = int


@contextmanager
def _source(urls: tuple[str, ...], file: str | None) -> Iterator[Source]:
    if bool(urls) == bool(file):
        raise click.UsageError("name URLs, or a file with --file, or - for stdin")
    if not all(url.strip() for url in urls):
        raise click.UsageError("one of the URLs is empty")
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
    """Decode lines, without a byte-order mark; a line that is not UTF-8 is replaced by a complaint."""
    from taskqueue.protocol.codec import MAX_MESSAGE_BYTES
    from taskqueue.protocol.value_stream import LONGEST_TIMES, lines

    text = TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape")
    try:
        yield from lines(text, LONGEST_TIMES * MAX_MESSAGE_BYTES)
    finally:
        with suppress(ValueError):  # the caller has closed the file
            text.detach()


@contextmanager
def _progress(source: Source) -> Iterator[Callable[[Pushed], object] | None]:
    """Show the progress of a push as a bar on stderr, if stderr is a terminal."""
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
    """Show the progress.

    Raises:
        click.ClickException: the project is unknown, so all other tasks would be rejected, too.
        RequestRejected: the key may not push to the project.
    """
    reasons = {_parted(error)[1] for error in pushed.errors}
    if pushed.rejected == pushed.total and len(reasons) == 1 and (reason := reasons.pop()).startswith(UNKNOWN):
        if pushed.forbidden == pushed.total:
            raise RequestRejected("forbidden", reason)
        raise click.ClickException(reason)
    if progress is not None:
        progress(pushed)


def _parted(error: str) -> tuple[int, str]:
    """Split ``task 7: why`` into 7 and why."""
    place, _, reason = error.removeprefix("task ").partition(": ")
    return int(place), reason


def _complain(problem: str) -> None:
    said = problem if len(problem) <= COMPLAINT_CHARS else f"{problem[:COMPLAINT_CHARS]} …"
    say(f"taskqueue push: {said}", err=True)


def _tell_rejected(lines: TaskLines, pushed: Pushed) -> None:
    """Print each of the daemon's reasons once, with the first lines that it concerns."""
    places: dict[str, list[int]] = {}
    for place, reason in map(_parted, pushed.errors):
        places.setdefault(reason, []).append(place)
    for reason, about in places.items():
        more = f" (and {len(about) - 1:,} more)" if len(about) > 1 else ""
        _complain(f"{lines.where(about[0])}{more}: {reason}")
    if unnamed := pushed.rejected - len(pushed.errors):
        _complain(f"and {unnamed:,} more were rejected")


def _counts(pushed: Pushed, bad: int) -> dict[str, int]:
    """Count tasks by outcome; unreadable lines count as rejected."""
    return {name: getattr(pushed, name) + (bad if name == "rejected" else 0) for name in NEW_OUTCOMES}
