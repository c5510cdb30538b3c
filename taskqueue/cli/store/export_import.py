"""``taskqueue store export`` and ``import``: a store, or a project of it, as lines of JSON or as MessagePack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from io import BufferedReader
from typing import IO, TYPE_CHECKING

import click

from taskqueue.cli.input.names import project_name
from taskqueue.cli.input.stdin import opened
from taskqueue.cli.output.json_output import visible_json
from taskqueue.cli.store.opening import make_if_absent, open_reader, open_store, where
from taskqueue.cli.store.target import StoreTarget, progress_bar, store_options
from taskqueue.display.counts import projects, tasks
from taskqueue.protocol.choices import STATES
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.core.tasks.records import ProjectRecord
    from taskqueue.store.contract import StoreReader
    from taskqueue.store.tools.export_formats import ExportFormat
    from taskqueue.store.tools.importer import KnownTasks


@click.command()
@click.option("--project", "names", metavar="PROJECT", type=project_name, multiple=True, help="Only this one; several.")
@click.option(
    "--state", "states", metavar="STATE", type=click.Choice(STATES), multiple=True, help="Only such; several."
)
@click.option("-o", "--output", metavar="FILE", type=click.File("wb", atomic=True), default="-", help="Not to stdout.")
@click.option("--format", "named", type=click.Choice(["json", "msgpack"]), help="Not that of the name of FILE.")
@store_options
def export(
    target: StoreTarget, names: tuple[str, ...], states: tuple[str, ...], output: IO[bytes], named: str | None
) -> None:
    """Write tasks and projects as lines of JSON. The daemon may go on meanwhile.

    Everything that another store needs to go on: url, state, schedule, body, what is over; and, unless --state is said,
    what happened by the minute and the hour. How each task ran, and leases, stay behind. The first line names the
    format and the projects, the last one counts the tasks.

    If the name of FILE ends in .msgpack the same is written as MessagePack maps, one after the other: faster, smaller,
    and with bodies as the bytes that they are.

    \b
    Example:
      taskqueue store export -o crawl.jsonl
      taskqueue store export -o crawl.msgpack
      taskqueue store export --project news --state failed | jq -r .url
    """
    from taskqueue.store.tools.export_formats import JSON, MESSAGEPACK

    form = format_of(str(getattr(output, "name", ""))) if named is None else MESSAGEPACK if named == "msgpack" else JSON
    if form is MESSAGEPACK and output.isatty():
        raise click.UsageError("MessagePack is nothing for a terminal; name a file with -o")
    with closing(open_reader(target)) as reader:
        write_export(reader, output, form, names, states)


def format_of(file: str) -> ExportFormat:
    """The format in which something is written to a file of this name."""
    from taskqueue.cli.input.packed_tasks import SUFFIX
    from taskqueue.store.tools.export_formats import JSON, MESSAGEPACK

    return MESSAGEPACK if file.endswith(SUFFIX) else JSON


def write_export(
    reader: StoreReader, output: IO[bytes], form: ExportFormat, names: Sequence[str] = (), states: Sequence[str] = ()
) -> None:
    """Write an export of all projects and states, or of these only.

    Raises:
        click.ClickException: a project does not exist.
        StoreError: the store can't be read.
        OSError: the output can't be written.
    """
    from taskqueue.core.tasks.task import STATE_NAMES
    from taskqueue.store.tools.export_formats import JSON
    from taskqueue.store.tools.exporter import History, export_lines

    wanted = [STATE_NAMES.index(name) for name in states or STATES]
    history: History = "none" if states else "projects" if names else "all"
    with progress_bar("tasks") as progress:
        for done, line in enumerate(export_lines(reader, _records(reader, names), wanted, form, history=history)):
            output.write((visible_json(line) if form is JSON else line) + form.end)
            progress(done)


@click.command("import")
@click.argument("file", type=click.Path())
@click.option("--merge", is_flag=True, help="Also into projects that have tasks: those that they don't know.")
@store_options
def import_store(target: StoreTarget, file: str, merge: bool) -> None:
    """Bring what export wrote, in either form (- is stdin), into a store. The daemon must be stopped.

    A store that is not there is made, and that is said. Projects that are not there are made, with their settings;
    those that are there keep theirs. Tasks that are known stay as they are. What was processing becomes ready. An
    import that was cut off is completed by another one, with --merge.

    \b
    Example:
      taskqueue store import crawl.jsonl --store /srv/taskqueue/store
      taskqueue store import crawl.msgpack --store postgresql://db.example/crawl
      taskqueue store import crawl.jsonl --store 'postgresql:///crawl?schema=news'
    """
    from taskqueue.calendar import Calendar
    from taskqueue.server.clock import Clock
    from taskqueue.store.tools.export_formats import detect_format
    from taskqueue.store.tools.importer import ImportCounts, import_lines

    brought = ImportCounts()
    with opened(file) as lines:
        is_new = make_if_absent(target)
        with closing(open_store(target)) as store, progress_bar("tasks") as progress:
            form = detect_format(lines.peek(1))
            parts = _parts(lines, form, target.message_bytes)
            if_known: KnownTasks = "skip" if merge else "refuse"
            for brought in import_lines(store, parts, if_known, Clock().now().boot, Calendar(), form):
                progress(brought.new + brought.known)
    rest = f", {tasks(brought.known)} known already" if brought.known else ""
    place = f"{where(target)}, a new store" if is_new else where(target)
    say(f"{place}: brought in {tasks(brought.new)}, made {projects(brought.projects)}{rest}")


def _parts(file: BufferedReader, form: ExportFormat, message_bytes: int) -> Iterator[bytes]:
    """The lines or maps of a file, none longer than what one message could have brought into a store.

    Raises:
        BadLine: a part is too long or malformed.
    """
    from taskqueue.protocol.value_stream import LONGEST_TIMES, BrokenStream, lines, values
    from taskqueue.store.tools.export_formats import MESSAGEPACK
    from taskqueue.store.tools.importer import BadLine

    read = values if form is MESSAGEPACK else lines
    try:
        yield from read(file, LONGEST_TIMES * message_bytes)
    except BrokenStream as error:
        raise BadLine(
            f"{error}; import the whole export again, with the config of its daemon if that says a server.max_message"
        ) from None


def _records(reader: StoreReader, names: Sequence[str]) -> list[ProjectRecord]:
    """Records of the named projects, or of all.

    Raises:
        click.ClickException: a project does not exist.
    """
    from taskqueue.store.tools.store_stats import project_records

    known = {record.name: record for record in project_records(reader)}
    for name in names:
        if name not in known:
            raise click.ClickException(f'project "{name}" is unknown')
    return [known[name] for name in names or known]
