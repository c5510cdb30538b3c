"""Requests about projects and groups: show, set, pause, stop, clear, reset and delete.

Clearing a project drops its live tasks at once, in any number.

    clear ──► orders of live tasks dropped, leases revoked, counts zero      this commit
         └──► records of these tasks by taskid and by seq                    deleted step by step: ``sweep``

1. A live task in the store with a seq up to ``Project.cleared`` is dropped: it is unknown. A finished task that becomes
   live again meanwhile gets a new seq.
2. Finished tasks stay known, so no URL runs twice. ``reset`` forgets them, too, by giving the project a new number.
3. Neither finishes the project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from taskqueue.core.model.project import Project
from taskqueue.core.model.task import LIVE, OVER
from taskqueue.core.moves import answer_waiters, change_log, flows
from taskqueue.core.moves.projects import (
    add_project,
    check_settings,
    in_group,
    make_another,
    note_pause,
    plan_cron,
    remove_project,
    use_settings,
)
from taskqueue.core.moves.push import cancel
from taskqueue.core.request_rule import SLOW_MS, RequestRule, Who, asked, asked_for_change
from taskqueue.core.requests.slots import division_view
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Setting
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
from taskqueue.protocol.values import Action
from taskqueue.settings.change_text import pairs, pairs_of_many, values, was
from taskqueue.settings.flat_names import flat, keys_of, misspelt
from taskqueue.settings.settings import as_layer, merge, overlay

GROUP_SET_MOST = 1000
"""Projects whose settings one request changes, at most."""


def show_project(turn: TurnState, message: ProjectShow) -> ProjectReply:
    """Answer with one project, and the layer that set each of its settings."""
    state = turn.state
    project = state.projects.named(message.project)
    view = project.view(turn.now, turn.state.environment)
    view = replace(view, configured=_configured(state, project), slots=division_view(project))
    return ProjectReply(n=message.n, project=view)


def _configured(state: State, project: Project) -> dict[str, list[ConfigLayer]]:
    """Map flat names of settings, or of keys in tables, to the layer of the config that set them."""
    defaults, own = (dict(flat(layer)) for layer in state.layers(project.name))
    said: dict[str, list[ConfigLayer]] = {name: ["project"] for name in own}
    for name in defaults:
        # A project that shares a bucket does not inherit a rate from the defaults.
        if name not in own and not (name == "rate" and project.settings.bucket):
            said[name] = ["defaults"]
    return said


def set_project(turn: TurnState, by: Who, message: ProjectSet) -> ProjectReply:
    """Override settings of a project, which is created if unknown; nothing changes if a setting is invalid."""
    state = turn.state
    project = state.projects.by_name.get(message.project)
    before = _settings_texts(project) if project else None
    overrides = dict(project.overrides) if project else {}
    overlay(overrides, message.settings)
    check_settings(state, message.project, overrides)
    check_joined(turn, message.settings)
    if project is None:
        project = make_another(turn, message.project, overrides)
    else:
        use_settings(turn, project, project.layers, overrides)
    detail = pairs([before] if before is not None else [], _settings_texts(project), _flat(message.settings))
    change_log.note(turn, by, _what_is_set(message.settings), project=project.name, detail=detail)
    return ProjectReply(n=message.n, project=project.view(turn.now, turn.state.environment))


def set_group(turn: TurnState, by: Who, message: GroupSet) -> GroupReply:
    """Override settings of all projects of a group; nothing changes if a setting is invalid in one of them.

    Raises:
        Rejected: the group is unknown or too large, or a setting is invalid; the reason names the project.
    """
    projects = in_group(turn, message.group)
    layers = _checked_layers(turn.state, message, projects)
    check_joined(turn, message.settings)
    before = [values(as_layer(project.settings), message.settings) for project in projects]
    for project, overrides in zip(projects, layers, strict=True):
        use_settings(turn, project, project.layers, overrides)
    after = [values(as_layer(project.settings), message.settings) for project in projects]
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
    """Merge the request's settings into the overrides of each project."""
    if len(projects) > GROUP_SET_MOST:
        reason = (
            f'group: "{message.group}" has {len(projects)} projects, but at most {GROUP_SET_MOST} can be set at once'
        )
        raise Rejected("full", f"{reason}; use [defaults] or the projects' sections of the config file instead")
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


JOINED: Final = ("group", "bucket")
"""Settings that join a project to others."""


def check_joined(turn: TurnState, settings: Mapping[str, Setting]) -> None:
    """Refuse a group or bucket with a project that the sender does not reach.

    Keys for that project could not act on the group any more, and the bucket's pace would be shared with it.

    Raises:
        Rejected: with the code ``forbidden``.
    """
    scope = turn.caller.scope
    if scope is None or settings.keys().isdisjoint(JOINED):
        return
    others = [each.settings for name, each in turn.state.projects.by_name.items() if not scope.has(name)]
    for kind, names in (("group", (each.group for each in others)), ("bucket", (each.bucket for each in others))):
        name = settings.get(kind)
        if name and any(name == each for each in names):
            raise Rejected("forbidden", f'{kind}: "{name}" is not yours to join; an admin for all projects may')


def _what_is_set(settings: Mapping[str, Setting]) -> str:
    return "cron set" if list(settings) == ["cron"] else "project set"


def _settings_texts(project: Project) -> dict[str, str]:
    """Write all settings of a project as texts, for the log."""
    settings = as_layer(project.settings)
    return values(settings, settings)


def _flat(said: Mapping[str, Setting]) -> list[str]:
    """List names of settings that were given; of tables, each key."""
    return [name for name, value in flat(said) if value != {}]


def unset_project(turn: TurnState, by: Who, message: ProjectUnset) -> ProjectReply:
    """Remove overrides of a project; all if the request names none.

    Raises:
        Rejected: one was not set, or the config's group or bucket has a project that the sender does not reach.
    """
    project = turn.state.projects.named(message.project)
    kept = dict(project.overrides) if message.keys else {}
    names = [keys_of(key) for key in message.keys]
    before, unset = as_layer(project.settings), [".".join(keys) for keys in names] or _flat(project.overrides)
    for keys in names:
        left = _without(kept, keys)
        if left is None:
            raise Rejected("setting", _why_kept(project, keys))
        kept = left
    if turn.caller.scope is not None:
        # The config may have a group or a bucket with projects outside.
        after = as_layer(merge(*project.layers, kept))
        check_joined(turn, {name: after[name] for name in JOINED if after[name] != before[name]})
    use_settings(turn, project, project.layers, kept)
    is_cron = all(keys[0] == "cron" and len(keys) > 1 for keys in names) and names
    what = "cron remove" if is_cron else "project unset"
    detail = pairs([values(before, before)], _settings_texts(project), unset) or "nothing was set"
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
    count, detail = lost(project, message.action), "made" if is_new else action_detail(turn, message, [project])
    after = act(turn, project, message.action, until)
    what = f"project {message.action}"
    change_log.note(turn, by, what, project=project.name, count=count, detail=detail)
    return ProjectReply(n=message.n, project=after.view(turn.now, turn.state.environment) if after else None)


def pause_end(turn: TurnState, message: ProjectDo | GroupDo) -> float:
    """Compute the end of the requested pause (unix seconds); 0: it does not end by itself.

    Raises:
        Rejected: another action has a duration.
    """
    if message.seconds is None:
        return 0.0
    if message.action != "pause":
        raise Rejected("malformed", f"seconds: only a pause can have a duration, not {message.action}")
    return turn.now.wall + message.seconds


def lost(project: Project, action: Action) -> int:
    """Count the tasks that the action drops."""
    if action == "clear":
        return project.queue.live
    return project.queue.known if action in ("reset", "delete") else 0


def action_detail(turn: TurnState, message: ProjectDo | GroupDo, projects: Iterable[Project]) -> str:
    """Describe the duration of the action and the former states: ``for 600 s (was running)``."""
    if message.action in LOSSES:
        return ""
    states, seconds = was(_state(turn, project) for project in projects), message.seconds
    return states if seconds is None else f"for {seconds:g} s ({states})"


def _state(turn: TurnState, project: Project) -> str:
    """Describe the state: ``running``, or ``paused for 540 s more`` during a pause with an end."""
    until = project.pause.record.until if project.state == "paused" else 0.0
    return f"paused for {max(0, round(until - turn.now.wall))} s more" if until else project.state


def act(turn: TurnState, project: Project, action: Action, until: float = 0.0) -> Project | None:
    """Apply the action; return the project afterwards, or None if it was deleted.

    Args:
        until: unix seconds at which a pause ends; 0: it does not end by itself.

    Raises:
        Rejected: the action is impossible now, as any but ``delete`` is while the project is imported; nothing has
            changed.
    """
    if action == "delete":
        remove_project(turn, project)
        return None
    project.check_whole()
    if action == "reset":
        return reset(turn, project)
    if action == "clear":
        clear(turn, project)
    else:
        project.act(action, until)
        note_pause(turn.state, project)
        turn.touch(project)
    return project


def _without(said: Mapping[str, Setting], keys: Sequence[str]) -> dict[str, Setting] | None:
    """Copy overrides without one setting, or one key of a table; None if it was not set."""
    first, *rest = keys
    if first not in said:
        return None
    left: dict[str, Setting] | None = {}
    if rest:
        table = said[first]
        left = _without(table, rest) if isinstance(table, dict) else None
    if left is None:
        return None
    return {**said, first: left} if left else {name: value for name, value in said.items() if name != first}


def _why_kept(project: Project, keys: Sequence[str]) -> str:
    """Explain why an override that was never set can't be removed."""
    if unknown := misspelt(keys):
        return unknown
    key, part = ".".join(keys), keys[-1]
    if keys[0] != "cron" or len(keys) == 1:
        return f'{key}: was not set by "project set" in project "{project.name}"'
    if part not in project.settings.cron:
        return f'{key}: there is no entry "{part}" in project "{project.name}"'
    off = f"taskqueue project set {project.name} 'cron={{\"{part}\": null}}'"
    return f"{key}: is set in the config file; remove it there, or switch it off with: {off}"


# ------------------------------------------------------------------------------------------------ clearing


def clear(turn: TurnState, project: Project) -> None:
    """Drop the project's live tasks, and end its flows."""
    project.armed = False
    turn.touch(project)
    if project.division is not None:
        project.division.taken_from = turn.state.next_number()
    if project.queue.live:
        _drop_live(turn, project)
    flows.end_all(turn, project)


def reset(turn: TurnState, project: Project) -> Project:
    """Forget all tasks of the project; its settings, state and pace stay.

    So do requests that wait for its end, and clients that keep it open.
    """
    state = turn.state
    fresh = project.anew(project.record(), turn.new_project_number(), turn.now)
    fresh.holds = project.holds
    fresh.take_waiters(project)
    remove_project(turn, project)
    add_project(turn, fresh)
    if fresh.queue.slots is not None:
        fresh.queue.slots.begin()  # recent dispatches of the slots are unknown now
    plan_cron(turn, fresh, {})
    state.boot_timers.note(("wait", fresh.number), fresh.next_wait_at())
    state.wall_timers.note(("project_hold", fresh.number), min(fresh.holds.values(), default=inf))
    turn.touch(fresh)
    return fresh


def _drop_live(turn: TurnState, project: Project) -> None:
    state = turn.state
    changes, queue = turn.changes, project.queue
    for task in [task for task in changes.touched if task.project == project.number]:
        # Revived in this very turn: the store has it as finished, and would still count it.
        if task.state in LIVE and task.kept_state in OVER:
            cancel(turn, project, task)
    flows.count(turn)
    for task in list(queue.processing.leased.values()):
        turn.revoke(task)
    changes.drop_live(project.number, queue.tasks.values())
    queue.clear()
    project.cleared = state.next_number()
    state.pending.sweep(project.number, project.cleared)
    project.swept_to = ""
    changes.writes.cleared.append(project.number)
    answer_waiters.answer_dropped_tasks(turn, project.number)


REQUESTS: Final = (
    RequestRule(ProjectShow, asked(show_project), keeps=False),
    RequestRule(ProjectSet, asked_for_change(set_project), grows=True, slow_ms=SLOW_MS / 2),
    RequestRule(GroupSet, asked_for_change(set_group), grows=True, slow_ms=SLOW_MS),
    RequestRule(ProjectUnset, asked_for_change(unset_project), slow_ms=SLOW_MS / 2),
    RequestRule(ProjectDo, asked_for_change(act_on_project), slow_ms=0.2),
)
