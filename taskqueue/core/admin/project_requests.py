"""Requests of people about projects: status, statistics, settings, actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import astuple

from taskqueue.core.admin import change_log, draining
from taskqueue.core.admin.pages import of_fetchers, of_projects, of_stats, that_fit
from taskqueue.core.admin.slot_views import division_view
from taskqueue.core.parts.windows import Counters, WindowSums
from taskqueue.core.projects.project import Project
from taskqueue.core.request_rule import SLOW_MS, RequestRule, Who, asked, asked_for_change
from taskqueue.core.rules import clear
from taskqueue.core.rules.registry import (
    check_settings,
    in_group,
    make_another,
    note_pause,
    remove_project,
    use_settings,
)
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.daemon import Status, StatusReply
from taskqueue.protocol.fetchers import Fetchers, FetchersReply
from taskqueue.protocol.fields import Setting, Wall
from taskqueue.protocol.insight import QUIET, ProjectStats, Stats, StatsReply, Window, Windows
from taskqueue.protocol.message_room import room_in
from taskqueue.protocol.projects import (
    LOSSES,
    ConfigLayer,
    GroupDo,
    GroupReply,
    GroupSet,
    ProjectDo,
    ProjectReply,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
)
from taskqueue.protocol.values import Action, Counts, Totals
from taskqueue.settings import schema
from taskqueue.settings.change_text import pairs, pairs_of_many, values, was
from taskqueue.settings.settings import Settings, as_layer, overlay

GROUP_SET_MOST = 1000
"""Projects whose settings one request changes."""

SLOT_PACE: Final = frozenset(("slot_delay", "slot_rate"))
"""Settings of which one takes the place of the other."""

FIGURES_BYTES: Final = 8 << 10
"""More than a status has besides its projects and fetchers: sums, counters, and what its page is sorted by."""


def status(turn: TurnState, message: Status) -> StatusReply:
    """The daemon's status with a page of projects, and the first fetchers; the shell adds the uptime."""
    state, now = turn.state, turn.now
    page = of_projects(turn, message)
    sessions = (session for session in state.sessions.values() if session.fetches)
    room = state.config.max_message - FIGURES_BYTES
    projects = that_fit(state, (project.view(now, state.environment) for project in page.projects), room // 2)
    room -= len(state.environment.pack(projects))
    fetchers = that_fit(state, (each.view(now.boot) for each in islice(sessions, message.fetchers)), room)
    return StatusReply(
        n=message.n,
        epoch=state.epoch,
        version=state.config.version,
        uptime_seconds=0.0,
        counts=Counts(*astuple(state.grand_totals.counts())),
        totals=Totals(*astuple(state.grand_totals.totals())),
        projects=projects,
        more=page.more or len(projects) < len(page.projects),
        fetchers=fetchers,
        found=page.found,
        numbers=list(page.numbers[: len(projects)]),
    )


def stats(turn: TurnState, message: Stats) -> StatsReply:
    """A page of the projects' statistics."""
    page = of_stats(turn.state, message)
    rows = [
        ProjectStats(project.name, Totals(*project.totals.row()), windows_of(project.counters, turn.now.wall))
        for project in page.projects
    ]
    return StatsReply(n=message.n, projects=rows, more=page.more)


def windows_of(counters: Counters, now_wall: Wall) -> Windows:
    """The windows that end now (unix seconds)."""
    return Windows(*map(_window, counters.sums(now_wall)))


def _window(sums: WindowSums | None) -> Window:
    """The view of one window; QUIET itself if nothing happened, because a message omits that very value."""
    if sums is None:
        return QUIET
    new, selected, success, failed, retried, timeout = sums.events
    if sums.seconds is None:
        return Window(new, selected, success, failed, retried, timeout)
    return Window(new, selected, success, failed, retried, timeout, *sums.seconds)


def fetchers(turn: TurnState, message: Fetchers) -> FetchersReply:
    """A page of fetchers, and sums over all matching ones."""
    state = turn.state
    if message.project:
        state.projects.named(message.project)
    page = of_fetchers(turn, message)
    room = room_in(state.config.max_message)
    away = that_fit(state, draining.away(state), room // 4)
    room -= len(state.environment.pack(away))
    shown = that_fit(state, (session.view(turn.now.boot) for session in page.sessions), room)
    return FetchersReply(
        n=message.n,
        fetchers=shown,
        more=page.more or len(shown) < len(page.sessions),
        found=len(page.found),
        capacity=sum(session.capacity for session in page.found),
        holds=sum(len(session.leases) for session in page.found),
        hung=sum(session.hung_places for session in page.found),
        beyond=sum(session.beyond for session in page.found),
        away=away,
    )


def show_project(turn: TurnState, message: ProjectShow) -> ProjectReply:
    """One project, and which layer set each of its settings."""
    state = turn.state
    project = state.projects.named(message.project)
    view = project.view(turn.now, turn.state.environment)
    view.configured = _configured(state, project)
    view.slots = division_view(project)
    return ProjectReply(n=message.n, project=view)


def _configured(state: State, project: Project) -> dict[str, list[ConfigLayer]]:
    """Which layer of the config set each setting, or key of one that is a table."""
    defaults, own = state.layers(project.name)
    said: dict[str, list[ConfigLayer]] = {}
    for name, value in own.items():
        is_joined = isinstance(value, dict) and isinstance(defaults.get(name), dict)
        said[name] = ["project", "defaults"] if is_joined else ["project"]
    for name in defaults:
        # Whoever shares a bucket has no rate of the defaults.
        if name not in own and not (name == "rate" and project.settings.bucket):
            said[name] = ["defaults"]
    return said


def set_project(turn: TurnState, by: Who, message: ProjectSet) -> ProjectReply:
    """Override settings of a project, which is created if it is unknown; nothing changes if one of them is invalid."""
    state = turn.state
    project = state.projects.by_name.get(message.project)
    before = _told(project) if project else None
    overrides = dict(project.overrides) if project else {}
    overlay(overrides, message.settings)
    check_settings(state, message.project, overrides)
    if project is None:
        project = make_another(turn, message.project, overrides)
    else:
        use_settings(turn, project, project.layers, overrides)
    detail = pairs([before] if before is not None else [], _told(project), _flat(message.settings))
    change_log.note(turn, by, _what_is_set(message.settings), project=project.name, detail=detail)
    return ProjectReply(n=message.n, project=project.view(turn.now, turn.state.environment))


def set_group(turn: TurnState, by: Who, message: GroupSet) -> GroupReply:
    """Override settings of each project of a group; nothing changes if one of them is invalid in one of the projects.

    Raises:
        Rejected: the group is unknown or too large, or a setting is invalid; the reason names the project.
    """
    projects = in_group(turn.state, message.group)
    layers = _checked_layers(turn.state, message, projects)
    names = [*message.settings, *(SLOT_PACE if not SLOT_PACE.isdisjoint(message.settings) else ())]
    before = [values(as_layer(project.settings), names) for project in projects]
    for project, overrides in zip(projects, layers, strict=True):
        use_settings(turn, project, project.layers, overrides)
    after = [values(as_layer(project.settings), names) for project in projects]
    detail = pairs_of_many(before, after, _flat(message.settings))
    change_log.note(
        turn,
        by,
        _what_is_set(message.settings),
        group=message.group,
        detail=detail,
        projects=[project.name for project in projects],
    )
    return GroupReply(n=message.n, projects=len(projects), changed=change_log.cut(detail))


def _checked_layers(state: State, message: GroupSet, projects: Sequence[Project]) -> list[dict[str, Setting]]:
    """What will have been said of each of these projects."""
    if len(projects) > GROUP_SET_MOST:
        reason = f'group: "{message.group}" has {len(projects)} projects, at most {GROUP_SET_MOST} can be set at once'
        raise Rejected("full", f"{reason}; say it in their sections of the config file, or in [defaults]")
    layers: list[dict[str, Setting]] = []
    more = 0
    for project in projects:
        overrides = dict(project.overrides)
        overlay(overrides, message.settings)
        try:
            more += check_settings(state, project.name, overrides, more)
        except Rejected as error:
            reason = f'{error.reason} (project "{project.name}"; none of the group is changed)'
            raise Rejected(error.code, reason) from None
        layers.append(overrides)
    return layers


def _what_is_set(settings: Mapping[str, Setting]) -> str:
    return "cron set" if list(settings) == ["cron"] else "project set"


def _told(project: Project) -> dict[str, str]:
    """All settings of a project, for the log."""
    settings = as_layer(project.settings)
    return values(settings, settings)


def _flat(said: Mapping[str, Setting]) -> list[str]:
    """Names of what was said; those in tables key by key."""
    return [
        flat
        for name, value in said.items()
        for flat in ([f"{name}.{key}" for key in value] if isinstance(value, dict) else [name])
    ]


def unset_project(turn: TurnState, by: Who, message: ProjectUnset) -> ProjectReply:
    """Remove overrides of a project; all of them if the request names none."""
    project = turn.state.projects.named(message.project)
    kept = dict(project.overrides) if message.keys else {}
    before, unset = _told(project), list(message.keys) or _flat(project.overrides)
    for key in message.keys:
        _unset(project, kept, key)
    use_settings(turn, project, project.layers, kept)
    is_cron = all(key.startswith("cron.") for key in message.keys) and message.keys
    what = "cron remove" if is_cron else "project unset"
    detail = pairs([before], _told(project), unset) or "nothing was set"
    change_log.note(turn, by, what, project=project.name, detail=detail)
    return ProjectReply(n=message.n, project=project.view(turn.now, turn.state.environment))


def act_on_project(turn: TurnState, by: Who, message: ProjectDo) -> ProjectReply:
    """Pause, resume, stop, start, clear, reset or delete a project; ``start`` creates an unknown one."""
    state = turn.state
    until = pause_end(turn, message)
    is_new = message.action == "start" and message.project not in state.projects.by_name
    if is_new:
        make_another(turn, message.project)
    project = state.projects.named(message.project)
    count, detail = lost(project, message.action), "made" if is_new else told_before(turn, message, [project])
    after = act(turn, project, message.action, until)
    what = f"project {message.action}"
    change_log.note(turn, by, what, project=project.name, count=count, detail=detail)
    return ProjectReply(n=message.n, project=after.view(turn.now, turn.state.environment) if after else None)


def pause_end(turn: TurnState, message: ProjectDo | GroupDo) -> float:
    """Unix seconds at which the pause that is asked for ends; 0: not by itself.

    Raises:
        Rejected: a time is said of another action.
    """
    if message.seconds is None:
        return 0.0
    if message.action != "pause":
        raise Rejected("malformed", f"seconds: only a pause is for a time, not {message.action}")
    return turn.now.wall + message.seconds


def lost(project: Project, action: Action) -> int:
    """Number of tasks that the action drops."""
    if action == "clear":
        return project.queue.live
    return project.queue.known if action in ("reset", "delete") else 0


def told_before(turn: TurnState, message: ProjectDo | GroupDo, projects: Iterable[Project]) -> str:
    """Tell for how long the action is meant, and the states that it ends: ``for 600 s (was running)``."""
    if message.action in LOSSES:
        return ""
    states, seconds = was(_state(turn, project) for project in projects), message.seconds
    return states if seconds is None else f"for {seconds:g} s ({states})"


def _state(turn: TurnState, project: Project) -> str:
    """``running``, or ``paused for 540 s more`` of a pause for a time."""
    until = project.pause.record.until if project.state == "paused" else 0.0
    return f"paused for {max(0, round(until - turn.now.wall))} s more" if until else project.state


def act(turn: TurnState, project: Project, action: Action, until: float = 0.0) -> Project | None:
    """Apply the action; returns the project as it is then, or None if it was deleted.

    Args:
        until: unix seconds at which a pause ends; 0: not by itself.

    Raises:
        Rejected: the action is impossible now; nothing has changed.
    """
    if action == "delete":
        remove_project(turn, project)
        return None
    if action == "reset":
        return clear.reset(turn, project)
    if action == "clear":
        clear.clear(turn, project)
    else:
        project.act(action, until)
        note_pause(turn.state, project)
        turn.touch(project)
    return project


def _unset(project: Project, overrides: dict[str, Setting], key: str) -> None:
    """Remove one override: a setting, or (``cron.JOB``) one key of a table."""
    name, dot, part = key.partition(".")
    table = overrides.get(name)
    if not dot and name in overrides:
        del overrides[name]
    elif isinstance(table, dict) and part in table:
        overrides[name] = {other: value for other, value in table.items() if other != part}
        if not overrides[name]:
            del overrides[name]
    else:
        raise Rejected("setting", _why_kept(project, key))


def _why_kept(project: Project, key: str) -> str:
    """Why an override can't be removed that was never set."""
    name, _, part = key.partition(".")
    if name not in Settings.__struct_fields__:
        return schema.unknown("", name, Settings)
    if name != "cron" or not part:
        return f'{key}: "project set" has said nothing of it in project "{project.name}"'
    if part not in project.settings.cron:
        return f'{key}: there is no job "{part}" in project "{project.name}"'
    off = f"taskqueue project set {project.name} 'cron={{\"{part}\": null}}'"
    return f"{key}: stands in the config file; remove it there, or switch it off with: {off}"


def _status_ms(request: Status) -> float:
    """Cost in milliseconds: by name that of its rows; any other order looks at all projects."""
    return 5.0 if request.sort == "name" else SLOW_MS


REQUESTS: Final = (
    RequestRule(Status, asked(status), keeps=False, slow_ms_of=_status_ms),
    RequestRule(Fetchers, asked(fetchers), keeps=False, slow_ms=SLOW_MS),
    RequestRule(Stats, asked(stats), keeps=False, slow_ms=2.0),
    RequestRule(ProjectShow, asked(show_project), keeps=False),
    RequestRule(ProjectSet, asked_for_change(set_project), grows=True, slow_ms=SLOW_MS / 2),
    RequestRule(GroupSet, asked_for_change(set_group), grows=True, slow_ms=SLOW_MS),
    RequestRule(ProjectUnset, asked_for_change(unset_project)),
    RequestRule(ProjectDo, asked_for_change(act_on_project), slow_ms=0.2),
)
