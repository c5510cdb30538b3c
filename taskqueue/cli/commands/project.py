"""``taskqueue project``: list, set up, pause, stop, clear and delete projects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, get_args

import click

from taskqueue.cli.input.confirmation import confirm
from taskqueue.cli.input.daemon import Daemon, daemon_options, full_status
from taskqueue.cli.input.names import group_option, project_name
from taskqueue.cli.input.settings import changes, parse
from taskqueue.cli.input.times import local, pause_seconds, paused_until
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.counts import projects, tasks
from taskqueue.display.operations import outcome
from taskqueue.display.remaining import to_go_text
from taskqueue.display.settings import text
from taskqueue.errors import RequestRejected
from taskqueue.protocol.choices import LiveState, OverState
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.fields import Setting
    from taskqueue.protocol.operations import OperationView
    from taskqueue.protocol.projects import ProjectView, SharedView
    from taskqueue.protocol.values import Action

NAMED_MOST: Final = 5
"""Projects that a question names."""


@click.group()
def project() -> None:
    """List, set up, pause, stop, clear and delete projects.

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
def list_projects(group: str | None, as_json: bool, url: str, timeout: float) -> None:
    """List projects with their counts.

    \b
    Example:
      taskqueue project list
      taskqueue project list --group papers
    """
    with Daemon(url, timeout).client() as client:
        views = full_status(client, group or "").projects
    if as_json:
        print_lines(views)
        return
    from taskqueue.cli.output import tables

    tables.show(tables.of_projects(views))


@project.command()
@click.argument("name", type=project_name)
@json_option
@daemon_options
def show(name: str, as_json: bool, url: str, timeout: float) -> None:
    """Show a project: its counts, why it is paused, its cron jobs, and its settings.

    Beside each setting stands who said it: `project set`, its section of the config file, the section [defaults]
    there, or nobody, so that it has its default. With a shared bucket it has no rate of its own unless that is said.

    \b
    Example:
      taskqueue project show news
    """
    with Daemon(url, timeout).client() as client:
        view = client.projects.show(name)
    if as_json:
        print_object(view)
        return
    from taskqueue.cli.output import tables
    from taskqueue.terminal.screen import Screen

    parts = [tables.of_projects([view]), tables.of_fields(_fields(view))]
    if view.cron:
        parts.append(tables.of_cron([view]))
    console = Screen()
    for part in (*parts, tables.of_settings(view)):
        console.print(part, "")


def _fields(view: ProjectView) -> dict[str, str]:
    """What is to be said of it beside its counts."""
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


def _shared(bucket: SharedView) -> str:
    pace = f"rate {text(bucket.rate)}/s, burst {text(bucket.burst)}"
    return f"{bucket.name}: {pace}, {bucket.tokens:,.1f} tokens"


@project.command("set")
@click.argument(
    "words", nargs=-1, required=True, metavar="[NAME] SETTING=VALUE...", shell_complete=project_name.shell_complete
)
@group_option
@daemon_options
def set_settings(words: tuple[str, ...], group: str | None, url: str, timeout: float) -> None:
    """Change settings of a project, at once and for good; they win over the config file until `unset`.

    With --group those of each of its projects, or of none if one of them can't have them. A project that doesn't exist
    is made. Times are seconds or such as 90s, 5m, 12h; a list is written with commas, inf is unlimited, a table is JSON
    and changed key by key.

    \b
    Example:
      taskqueue project set news rate=5 burst=10 retry_delay=30s,1m,1h
      taskqueue project set news group=papers active="22:00-06:00 Europe/Berlin"
      taskqueue project set news 'fetch={"proxy": "127.0.0.1:3128"}'
      taskqueue project set news 'on_finished={"url": "data:,report"}'
      taskqueue project set --group papers rate=2
    """
    if group:
        said = parse(words)
        with Daemon(url, timeout).client() as client:
            reply = client.groups.set(group, said)
        say(f"group {group}, {projects(reply.projects)}: {reply.changed}")
        return
    name, settings = project_name(words[0]), words[1:]
    if not settings:
        raise click.UsageError("say what to set, such as rate=5")
    said = parse(settings)
    with Daemon(url, timeout).client() as client:
        before = _settings(client, name)
        after = client.projects.set(name, said).settings
    if before is None:
        say(f"{name}: made; {changes({}, {key: after[key] for key in said})}")
    else:
        say(f"{name}: {changes(before, after)}")


@project.command()
@click.argument("name", type=project_name)
@click.argument("keys", nargs=-1)
@daemon_options
def unset(name: str, keys: tuple[str, ...], url: str, timeout: float) -> None:
    """Take back what `set` said of these settings (none named: of all); the config file holds again.

    One key of a table is named with a dot.

    \b
    Example:
      taskqueue project unset news rate burst fetch.proxy cron.daily
    """
    with Daemon(url, timeout).client() as client:
        before = client.projects.show(name).settings
        view = client.projects.unset(name, keys)
    say(f"{name}: {changes(before, view.settings)}")


def _settings(client: Client, name: str) -> Mapping[str, Setting] | None:
    """Those in force; None: there is no such project."""
    try:
        return client.projects.show(name).settings
    except RequestRejected:
        return None


# ------------------------------------------------------------------------------------------------ actions


def _add_action(action: Action, what: str, result: str) -> None:
    """Add the command for an action that needs no question; ``result`` is what it says then."""

    @project.command(action, help=_help(action, what))
    @click.argument("names", metavar="NAME...", type=project_name, nargs=-1)
    @group_option
    @daemon_options
    def act(names: tuple[str, ...], group: str | None, url: str, timeout: float) -> int:
        _check(names, group)
        with Daemon(url, timeout).client() as client:
            return _act(client, names, group, action, result)


all_option: Final = click.option("--all", "every", is_flag=True, help="All projects, whatever their group.")


@project.command()
@click.argument("names", metavar="NAME...", type=project_name, nargs=-1)
@group_option
@all_option
@click.option(
    "--for", "seconds", type=pause_seconds, metavar="TIME", help="Resume by itself after this time, 115d at most."
)
@daemon_options
def pause(
    names: tuple[str, ...], group: str | None, every: bool, seconds: float | None, url: str, timeout: float
) -> int:
    """Hand out no more tasks of projects until `resume`; new ones are still taken.

    With --for a project goes on by itself; whatever is done next with it, such as another pause, replaces that. Of a
    group, and of all, projects that an operator has paused until `resume` stay so.

    \b
    Example:
      taskqueue project pause news
      taskqueue project pause news --for 10m
      taskqueue project pause --group papers
      taskqueue project pause --all --for 1h
    """
    _check(names, group, every=every)
    with Daemon(url, timeout).client() as client:
        if group or every:
            view = client.projects.pause_all(seconds) if every else client.groups.pause(group or "", seconds)
            say(_paused(view))
            return 0
        return max([_tell(name, lambda name: _pause(client, name, seconds)) for name in names])


def _paused(view: OperationView) -> str:
    """``paused 4 projects until …; 3 stay as they were (stopped, or paused until resume)``."""
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
@click.argument("names", metavar="NAME...", type=project_name, nargs=-1)
@group_option
@all_option
@daemon_options
def resume(names: tuple[str, ...], group: str | None, every: bool, url: str, timeout: float) -> int:
    """Hand out tasks of paused projects again.

    \b
    Example:
      taskqueue project resume news
      taskqueue project resume --group papers
      taskqueue project resume --all
    """
    _check(names, group, every=every)
    with Daemon(url, timeout).client() as client:
        if every:
            say(outcome(client.projects.resume_all()))
            return 0
        return _act(client, names, group, "resume", "running")


def _add_loss(action: Action, what: str, result: str, question: str) -> None:
    """Add the command for an action that loses tasks, with its question."""

    @project.command(action, help=_help(action, what))
    @click.argument("names", metavar="NAME...", type=project_name, nargs=-1)
    @group_option
    @click.option("--yes", is_flag=True, help="Don't ask.")
    @daemon_options
    def act(names: tuple[str, ...], group: str | None, yes: bool, url: str, timeout: float) -> int:
        _check(names, group)
        with Daemon(url, timeout).client() as client:
            if not yes:
                views = list(_views(client, names, group))
                confirm(_filled(question, views), f"{_named(views)}: not {result}")
            return _act(client, names, group, action, result)


def _help(action: Action, what: str) -> str:
    return f"{what}\n\n\b\nExample:\n  taskqueue project {action} news\n  taskqueue project {action} --group papers"


def _check(names: Sequence[str], group: str | None, *, every: bool | None = None) -> None:
    """See that one thing is meant; ``every``: --all was given, None: the command does not have it."""
    if bool(names) + bool(group) + bool(every) != 1:
        raise click.UsageError("name projects, or their group with --group" + ("" if every is None else ", or --all"))


def _act(client: Client, names: Iterable[str], group: str | None, action: Action, result: str) -> int:
    """Do it with each of them, and say so; exit status 1 if it could not be done with one that was named."""
    if group:
        say(outcome(_acts_on_groups(client)[action](group)))
        return 0
    return max([_act_on(client, name, action, result) for name in names])


def _act_on(client: Client, name: str, action: Action, result: str) -> int:
    def told(name: str) -> str:
        view = _acts_on_projects(client)[action](name)
        return f"{result}, {_pace(view)}" if view is not None and action == "start" else result

    return _tell(name, told)


def _tell(name: str, act: Callable[[str], str]) -> int:
    """Do something with a project, and say what it is then; exit status 1 if it could not be done."""
    try:
        said = act(name)
    except RequestRejected as error:
        say(f"taskqueue: {error}", err=True)
        return 1
    say(f"{name}: {said}")
    return 0


def _acts_on_projects(client: Client) -> Mapping[Action, Callable[[str], ProjectView | None]]:
    """The method for each action on one project."""
    return {
        "resume": client.projects.resume,
        "stop": client.projects.stop,
        "start": client.projects.start,
        "clear": client.projects.clear,
        "reset": client.projects.reset,
        "delete": client.projects.delete,
    }


def _acts_on_groups(client: Client) -> Mapping[Action, Callable[[str], OperationView]]:
    """The method for each action on all projects of a group."""
    return {
        "resume": client.groups.resume,
        "stop": client.groups.stop,
        "start": client.groups.start,
        "clear": client.groups.clear,
        "reset": client.groups.reset,
        "delete": client.groups.delete,
    }


def _pace(view: ProjectView) -> str:
    """How fast its tasks are handed out, for an operator who has set nothing."""
    if view.shared is not None:
        return f"at the pace of the shared bucket {view.shared.name}, {text(view.shared.rate)}/s"
    rate, burst = text(view.settings["rate"]), text(view.settings["burst"])
    pace = "as fast as fetchers take tasks" if rate == "inf" else f"at most {burst} tasks at once, then {rate}/s"
    return f"{pace} (rate={rate} burst={burst})"


def _views(client: Client, names: Iterable[str], group: str | None) -> Iterator[ProjectView]:
    """The projects that are meant.

    Raises:
        RequestRejected: one of them is unknown.
        click.ClickException: the group has none.
    """
    if not group:
        yield from (client.projects.show(name) for name in names)
        return
    yield from full_status(client, group).projects


def _named(views: Sequence[ProjectView]) -> str:
    """``news``, or ``3 projects (a, b, c)``."""
    if len(views) == 1:
        return views[0].name
    dots = ", …" if len(views) > NAMED_MOST else ""
    return f"{len(views):,} projects ({', '.join(view.name for view in views[:NAMED_MOST])}{dots})"


def _filled(question: str, views: Sequence[ProjectView]) -> str:
    counts = [view.counts for view in views]
    live = sum(getattr(count, state) for count in counts for state in get_args(LiveState))
    over = sum(getattr(count, state) for count in counts for state in get_args(OverState))
    return question.format(projects=_named(views), live=tasks(live), over=tasks(over))


_add_action("stop", "Stop projects until `start`: they keep and take tasks, and hand out none.", "stopped")
_add_action("start", "Start stopped projects, or make new ones.", "running")
_add_loss(
    "clear",
    "Drop the tasks of projects that are still to do. Those that are over stay known: no url twice.",
    "cleared",
    "Clear {projects}: drop {live} to do?",
)
_add_loss(
    "reset",
    "Forget all tasks of projects, also those that are over; their settings, state and pace stay.",
    "reset",
    "Reset {projects}: forget {live} to do, and {over} over?",
)
_add_loss(
    "delete",
    "Delete projects with all their tasks, for ever.",
    "deleted",
    "Delete {projects}, with {live} to do and {over} over?",
)
