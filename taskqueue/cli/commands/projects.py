"""``taskqueue project``: set up, pause, stop, clear and delete projects; wait until they have finished."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, get_args

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options, full_status, waiting_options
from taskqueue.cli.input.names import group_option, named_projects_argument, project_name
from taskqueue.cli.input.settings import changes, parse
from taskqueue.cli.input.stdin import confirm
from taskqueue.cli.input.times import local, pause_seconds, paused_until
from taskqueue.cli.output.json_output import json_lines_option, print_lines
from taskqueue.display.counts import projects, tasks
from taskqueue.display.operations import outcome
from taskqueue.display.projects import remaining_text, setting_text, to_go_text
from taskqueue.errors import STATUSES, MessageTooLarge, RequestRejected, StoreError
from taskqueue.protocol.choices import LiveState, OverState
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.cli.input.export_file import ExportFile, Step
    from taskqueue.protocol.fields import Setting
    from taskqueue.protocol.projects import Project, Remaining, SharedBucket
    from taskqueue.protocol.values import Action, Operation


NAMED_MOST: Final = 5
"""Projects that a question names, at most."""


@click.group()
def project() -> None:
    """List, set, pause, stop and delete projects.

    \b
    Example:
      taskqueue project start news
      taskqueue project set news rate=5 burst=10 group=papers
      taskqueue project pause --group papers
    """


@project.command("list")
@group_option
@json_lines_option
@daemon_options
def list_projects(group: str | None, as_json: bool, daemon: Daemon) -> None:
    """List projects with their counts.

    \b
    Example:
      taskqueue project list
      taskqueue project list --group papers
    """
    with daemon.client() as client:
        views = full_status(client, group or "").projects
    if as_json:
        print_lines(views)
        return
    from taskqueue.cli.output import project_tables, tables

    tables.show(project_tables.of_projects(views))


@project.command()
@named_projects_argument
@json_lines_option
@daemon_options
def show(projects: tuple[str, ...], as_json: bool, daemon: Daemon) -> None:
    """Show counts, pauses, cron and settings.

    Each setting shows where it comes from: `project set`, the project's section of the config file, the section
    [defaults] there, or its default. In a shared bucket a project has no rate of its own unless one is set.

    \b
    Example:
      taskqueue project show news
    """
    with daemon.client() as client:
        views = [*map(client.projects.get, projects)]
    if as_json:
        print_lines(views)
        return
    for view in views:
        _draw(view)


def _draw(view: Project) -> None:
    from taskqueue.cli.output import project_tables, tables
    from taskqueue.terminal.screen import Screen

    parts = [project_tables.of_projects([view]), tables.of_fields(_fields(view))]
    if view.cron:
        parts.append(project_tables.of_cron([view]))
    console = Screen()
    for part in (*parts, project_tables.of_settings(view)):
        console.print(part, "")


def _fields(view: Project) -> dict[str, str]:
    """Rows about a project, without its counts."""
    from taskqueue.cli.output.slot_tables import of_division

    sessions = "1 session" if view.held_by == 1 else f"{view.held_by:,} sessions"
    times = "once" if view.finished == 1 else f"{view.finished:,} times"
    fields = {
        "how far": to_go_text(view.unfinished, view.remaining),
        "paused because": view.reason,
        "paused until": local(view.paused_until),
        "next check": local(view.check_at),
        "held open by": sessions if view.held_by else "",
        "finished": times if view.finished else "never yet",
        "tokens": f"{view.tokens:,.1f}",
        "shared bucket": _shared(view.shared) if view.shared else "",
        "slots": of_division(view.slots) if view.slots else "",
    }
    return {name: value for name, value in fields.items() if value}


def _shared(bucket: SharedBucket) -> str:
    pace = f"rate {setting_text(bucket.rate)}/s, burst {setting_text(bucket.burst)}"
    return f"{bucket.name}: {pace}, {bucket.tokens:,.1f} tokens"


@project.command("set")
@click.argument(
    "words", nargs=-1, required=True, metavar="[PROJECT] KEY=VALUE...", shell_complete=project_name.shell_complete
)
@group_option
@daemon_options
def set_settings(words: tuple[str, ...], group: str | None, daemon: Daemon) -> None:
    """Change settings; wins over the file.

    Changes apply at once and until `unset`. With --group all its projects change, or none if one of them can't. A
    project that doesn't exist is made. Times are seconds or such as 90s, 5m, 12h; lists have commas, inf is
    unlimited. A key of a table is named with a dot, or the table is given as JSON and changed key by key.

    \b
    Example:
      taskqueue project set news rate=5 burst=10 retry_delay=30s,1m,1h
      taskqueue project set news group=papers active="22:00-06:00 Europe/Berlin"
      taskqueue project set news slot.by=host slot.delay=2 keep.failed=30d
      taskqueue project set news 'fetch={"proxy": "127.0.0.1:3128"}'
      taskqueue project set news 'on_finished={"url": "data:,report"}'
      taskqueue project set --group papers rate=2
    """
    if group:
        said = parse(words)
        with daemon.client() as client:
            reply = client.groups.set(group, said)
        say(f"group {group}, {projects(reply.projects)}: {reply.changed}")
        return
    name, settings = project_name(words[0]), words[1:]
    if not settings:
        raise click.UsageError("say what to set, such as rate=5")
    said = parse(settings)
    with daemon.client() as client:
        before = _settings(client, name)
        after = client.projects.set(name, said).settings
    if before is None:
        say(f"{name}: made; {changes({}, _among(after, said))}")
    else:
        say(f"{name}: {changes(before, after)}")


@project.command()
@click.argument("project", type=project_name)
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@daemon_options
def unset(project: str, keys: tuple[str, ...], daemon: Daemon) -> None:
    """Return settings to the config file.

    Forgets what `set` said of these keys, or of all if none is named. A key of a table is named with a dot.

    \b
    Example:
      taskqueue project unset news rate slot.delay fetch.proxy cron.daily
    """
    with daemon.client() as client:
        before = client.projects.get(project).settings
        view = client.projects.unset(project, keys)
    say(f"{project}: {changes(before, view.settings)}")


def _among(settings: Mapping[str, Setting], said: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings in force among those that were just set; of tables, the keys."""
    found = {}
    for key, part in said.items():
        if key in settings:
            value = settings[key]
            found[key] = _among(value, part) if isinstance(value, dict) and isinstance(part, dict) else value
    return found


def _settings(client: Client, name: str) -> Mapping[str, Setting] | None:
    """Settings in force; None if the project is unknown."""
    try:
        return client.projects.get(name).settings
    except RequestRejected:
        return None


# ------------------------------------------------------------------------------------------------ actions


def _add_action(action: Action, what: str, result: str) -> None:
    """Add the command of an action without a question; ``result`` is what it prints."""

    @project.command(action, help=_help(action, what))
    @click.argument("names", metavar="[PROJECT]...", type=project_name, nargs=-1)
    @group_option
    @daemon_options
    def act(names: tuple[str, ...], group: str | None, daemon: Daemon) -> int:
        _check(names, group)
        with daemon.client() as client:
            return _act(client, names, group, action, result)


all_option: Final = click.option("--all", "every", is_flag=True, help="All projects.")


@project.command()
@click.argument("names", metavar="[PROJECT]...", type=project_name, nargs=-1)
@group_option
@all_option
@click.option("--for", "seconds", type=pause_seconds, metavar="DURATION", help="Length of the pause, at most 115d.")
@daemon_options
def pause(names: tuple[str, ...], group: str | None, every: bool, seconds: float | None, daemon: Daemon) -> int:
    """Pause dispatch.

    Projects still accept tasks, and dispatch none until `resume`. With --for a project resumes by itself, unless
    another action, such as a second pause, comes first. With --group and --all, projects that are already paused until
    `resume` stay so.

    \b
    Example:
      taskqueue project pause news
      taskqueue project pause news --for 10m
      taskqueue project pause --group papers
      taskqueue project pause --all --for 1h
    """
    _check(names, group, every=every)
    with daemon.client() as client:
        if group or every:
            view = client.projects.pause_all(seconds) if every else client.groups.pause(group or "", seconds)
            say(_paused(view))
            return 0
        return _status([_act_and_print(name, lambda name: _pause(client, name, seconds)) for name in names])


def _paused(view: Operation) -> str:
    """Describe a pause: ``paused 4 projects until …; 3 stay as they were (stopped, or paused until resume)``."""
    if not view.until:
        return outcome(view)
    left = view.seen - view.matched
    stay = f"{left:,} {'stays as it was' if left == 1 else 'stay as they were'} (stopped, or paused until resume)"
    until = f" until {local(view.until)}" if view.matched else ""
    return f"paused {projects(view.matched)}{until}" + (f"; {stay}" if left else "")


def _pause(client: Client, name: str, seconds: float | None) -> str:
    view = client.projects.pause(name, seconds)
    return paused_until(view.paused_until) if view.paused_until else "paused"


@project.command()
@click.argument("names", metavar="[PROJECT]...", type=project_name, nargs=-1)
@group_option
@all_option
@daemon_options
def resume(names: tuple[str, ...], group: str | None, every: bool, daemon: Daemon) -> int:
    """Resume dispatch.

    \b
    Example:
      taskqueue project resume news
      taskqueue project resume --group papers
      taskqueue project resume --all
    """
    _check(names, group, every=every)
    with daemon.client() as client:
        if every:
            say(outcome(client.projects.resume_all()))
            return 0
        return _act(client, names, group, "resume", "running")


def _add_loss(action: Action, what: str, result: str, question: str) -> None:
    """Add the command of an action that loses tasks, with its question."""

    @project.command(action, help=_help(action, what))
    @click.argument("names", metavar="[PROJECT]...", type=project_name, nargs=-1)
    @group_option
    @click.option("--yes", is_flag=True, help="Yes to the question that would be asked.")
    @daemon_options
    def act(names: tuple[str, ...], group: str | None, yes: bool, daemon: Daemon) -> int:
        _check(names, group)
        with daemon.client() as client:
            if not yes:
                views = list(_views(client, names, group))
                confirm(_filled(question, views), f"{_named(views)}: not {result}")
            return _act(client, names, group, action, result)


def _help(action: Action, what: str) -> str:
    return f"{what}\n\n\b\nExample:\n  taskqueue project {action} news\n  taskqueue project {action} --group papers"


def _check(names: Sequence[str], group: str | None, *, every: bool | None = None) -> None:
    """Check that one way to choose projects was used; ``every``: whether --all was given, None without that option."""
    if bool(names) + bool(group) + bool(every) != 1:
        raise click.UsageError("name projects, or their group with --group" + ("" if every is None else ", or --all"))


def _act(client: Client, names: Iterable[str], group: str | None, action: Action, result: str) -> int:
    """Act on each project, and print the result; return the exit status."""
    if group:
        say(outcome(_acts_on_groups(client)[action](group)))
        return 0
    return _status([_act_on(client, name, action, result) for name in names])


def _status(ends: Sequence[int]) -> int:
    """Exit status by those of all projects: 1 if they differ, such as 77 of those that the key does not reach."""
    return ends[0] if len(set(ends)) == 1 else 1


def _act_on(client: Client, name: str, action: Action, result: str) -> int:
    def act(name: str) -> str:
        view = _acts_on_projects(client)[action](name)
        return f"{result}, {_pace(view)}" if view is not None and action == "start" else result

    return _act_and_print(name, act)


def _act_and_print(name: str, act: Callable[[str], str]) -> int:
    """Act on a project, and print its new state; return the exit status."""
    try:
        said = act(name)
    except RequestRejected as error:
        say(f"taskqueue: {error}", err=True)
        return STATUSES.get(error.code, 1)
    say(f"{name}: {said}")
    return 0


def _acts_on_projects(client: Client) -> Mapping[Action, Callable[[str], Project | None]]:
    """Client methods by action on one project."""
    return {
        "resume": client.projects.resume,
        "stop": client.projects.stop,
        "start": client.projects.start,
        "clear": client.projects.clear,
        "reset": client.projects.reset,
        "delete": client.projects.delete,
    }


def _acts_on_groups(client: Client) -> Mapping[Action, Callable[[str], Operation]]:
    """Client methods by action on all projects of a group."""
    return {
        "resume": client.groups.resume,
        "stop": client.groups.stop,
        "start": client.groups.start,
        "clear": client.groups.clear,
        "reset": client.groups.reset,
        "delete": client.groups.delete,
    }


def _pace(view: Project) -> str:
    """Describe the pace of a project, for an operator who has set none."""
    if view.shared is not None:
        return f"at the pace of the shared bucket {view.shared.name}, {setting_text(view.shared.rate)}/s"
    rate, burst = setting_text(view.settings["rate"]), setting_text(view.settings["burst"])
    pace = "as fast as fetchers take tasks" if rate == "inf" else f"at most {burst} tasks at once, then {rate}/s"
    return f"{pace} (rate={rate} burst={burst})"


def _views(client: Client, names: Iterable[str], group: str | None) -> Iterator[Project]:
    """Fetch the chosen projects.

    Raises:
        RequestRejected: a project is unknown.
        click.ClickException: the group has no members.
    """
    if not group:
        yield from (client.projects.get(name) for name in names)
        return
    yield from full_status(client, group).projects


def _named(views: Sequence[Project]) -> str:
    """Name projects for a question: ``news``, or ``3 projects (a, b, c)``."""
    if len(views) == 1:
        return views[0].name
    dots = ", …" if len(views) > NAMED_MOST else ""
    return f"{len(views):,} projects ({', '.join(view.name for view in views[:NAMED_MOST])}{dots})"


def _filled(question: str, views: Sequence[Project]) -> str:
    counts = [view.counts for view in views]
    live = sum(getattr(count, state) for count in counts for state in get_args(LiveState))
    over = sum(getattr(count, state) for count in counts for state in get_args(OverState))
    return question.format(projects=_named(views), live=tasks(live), over=tasks(over))


_add_action("stop", "Stop projects.\n\nThey keep and take tasks, and dispatch none until `start`.", "stopped")
_add_action("start", "Start or create projects.", "running")
_add_loss(
    "clear",
    "Drop unfinished tasks.\n\nFinished tasks stay known, so that no URL is fetched twice.",
    "cleared",
    "Clear {projects}: drop {live} to do?",
)
_add_loss(
    "reset",
    "Forget all tasks; keep the settings.\n\nFinished tasks are forgotten, too; state and pace of the projects stay.",
    "reset",
    "Reset {projects}: forget {live} to do, and {over} finished?",
)
_add_loss(
    "delete",
    "Delete projects with all their tasks.",
    "deleted",
    "Delete {projects}, with {live} to do and {over} finished?",
)


# ------------------------------------------------------------------------------------------------ import


@project.command("import")
@click.argument("project", type=project_name)
@click.argument("file", type=click.Path())
@daemon_options
def import_project(project: str, file: str, daemon: Daemon) -> None:
    """Bring a project back from an export.

    The daemon runs, and must not know the project. FILE is an export of one project, in either format, such as by
    `taskqueue store export news --store BACKUP -o FILE`; PROJECT need not be its former name. Until all of it is there
    the project is paused, and then in the state that it had. Processing tasks become ready. What was never exported
    stays behind: leases, flows, which the last line counts, operations and overrides of slots.

    An interrupted import is continued by the same command, and dropped by `taskqueue project delete`.

    \b
    Example:
      taskqueue project import news news.jsonl
      taskqueue project import news-of-monday news.msgpack
    """
    from taskqueue.cli.input.export_file import ExportFile
    from taskqueue.cli.input.store import progress_bar

    known = 0
    try:
        export = ExportFile(file)
        with daemon.client() as client, progress_bar("parts", export.parts) as progress:
            begun = client.projects.import_step(project, export.hash, export.project())
            for step in export.steps(begun.brought):
                known += _import(client, project, file, export, step)
                progress(step.first + len(step.numbers))
            view = client.projects.get(project)
    except StoreError as error:
        raise click.ClickException(f"{file}: {error}") from None
    before = f", {begun.brought:,} of {export.parts:,} parts were there" if begun.brought < export.parts else ""
    rest = f", {tasks(known)} known already" if known else ""
    left = f"; left behind: {export.left_behind}" if export.left_behind else ""
    say(f"{project}: brought in {tasks(export.tasks)}{rest}{before if begun.brought else ''}; it is {view.state}{left}")


def _import(client: Client, project: str, file: str, export: ExportFile, step: Step) -> int:
    """Send a step, in halves if it is too large for a message; return the number of known tasks."""
    try:
        reply = client.projects.import_step(
            project, export.hash, first=step.first, tasks=step.tasks, every=step.every, points=step.points
        )
    except MessageTooLarge as error:
        if len(step.tasks) < 2:
            raise click.ClickException(f"{file}: {export.unit} {step.numbers[0]:,}: {error}") from None
        return sum(_import(client, project, file, export, half) for half in step.halves())
    except RequestRejected as error:
        number, reason = step.place(error.reason)
        if not number:
            raise
        raise RequestRejected(error.code, f"{file}: {export.unit} {number:,}: {reason}") from None
    return reply.known


# ------------------------------------------------------------------------------------------------ wait

REFRESHES_A_SECOND = 4.0
"""Refreshes a second of the progress line on a terminal."""

FIRST_TOLD: Final = (1, 3, 7)
THEN_TOLD: Final = 20
"""Without a terminal a line is printed for these answers of the daemon, one of which comes every half minute, and then
for every twentieth."""

NOTHING_LEFT: Final = "nothing is left, but it is kept open"


@project.command()
@named_projects_argument
@click.option("--ignore-retries", is_flag=True, help="End while only tasks are left that wait for a retry.")
@waiting_options
def wait(projects: tuple[str, ...], ignore_retries: bool, patience: float, daemon: Daemon) -> int:
    """Wait until projects have finished.

    A project has finished when it has no unfinished task; a recurring task counts as finished after its first run. The
    exit status is 0 if all have finished, 1 after --timeout. The wait continues while the daemon restarts.

    An expired task counts as unfinished until its turn to run comes, so it is waited for in a project that is stopped,
    paused or without fetchers.

    A terminal shows progress and the remaining time. Otherwise a line on stderr does: after half a minute, then less
    and less often, at last every ten minutes.

    \b
    Example:
      taskqueue project wait news
      taskqueue project wait news blog --ignore-retries && ./report
      taskqueue push news -f tasks.jsonl && taskqueue project wait news
    """
    end = time.monotonic() + patience
    waited_for = projects
    with daemon.client() as client:
        while waited_for:
            for name in waited_for:
                if not _wait(client, name, max(0.0, end - time.monotonic()), ignore_retries=ignore_retries):
                    return 1
            # The handlers of one project may have pushed tasks to another one that had finished before.
            others = projects if len(projects) > 1 else ()
            waited_for = tuple(
                name for name in others if not client.projects.wait(name, 0, ignore_retries=ignore_retries)
            )
    return 0


def _wait(client: Client, name: str, patience: float, *, ignore_retries: bool) -> bool:
    waiting = _Waiting(client, name, patience, ignore_retries=ignore_retries)
    finished = waiting.on_terminal() if sys.stderr.isatty() else waiting.in_lines()
    if not finished:
        view = client.projects.get(name)
        to_go = to_go_text(view.unfinished, view.remaining, ignores_retries=ignore_retries) or NOTHING_LEFT
        say(f"taskqueue project wait: {name} has not finished, {to_go}", err=True)
    return finished


class _Waiting:
    """Wait for one project, with its progress."""

    def __init__(self, client: Client, project: str, patience: float, *, ignore_retries: bool) -> None:
        self._client = client
        self._project = project
        self._patience = patience
        self._ignore_retries = ignore_retries

    def on_terminal(self) -> bool:
        """Wait with a progress line on the terminal."""
        from taskqueue.terminal.screen import Screen, Text

        screen, unfinished = Screen(err=True), 0

        def note(left: int) -> None:
            nonlocal unfinished
            unfinished = left

        def tell(remaining: Remaining) -> None:
            to_go = to_go_text(unfinished, remaining, ignores_retries=self._ignore_retries) or NOTHING_LEFT
            line.update(Text(f"{self._project}: {to_go}"))

        with screen.status(Text(self._project), refresh_per_second=REFRESHES_A_SECOND) as line:
            finished = self._wait(note, tell)
        if finished:
            screen.print(Text(f"{self._project} has finished{', but for its retries' * self._ignore_retries}"))
        return finished

    def in_lines(self) -> bool:
        """Wait with an occasional line on stderr."""
        asked = count()

        def tell(remaining: Remaining) -> None:
            if is_told(next(asked)):
                say(f"taskqueue project wait: {self._project}: {remaining_text(remaining) or NOTHING_LEFT}", err=True)

        return self._wait(None, tell)

    def _wait(self, progress: Callable[[int], object] | None, tell: Callable[[Remaining], object]) -> bool:
        return self._client.projects.wait(
            self._project, self._patience, progress, ignore_retries=self._ignore_retries, on_remaining=tell
        )


def is_told(place: int) -> bool:
    """Whether the answer at this index, of one every half minute, is printed."""
    return place in FIRST_TOLD or (place > 0 and place % THEN_TOLD == 0)
