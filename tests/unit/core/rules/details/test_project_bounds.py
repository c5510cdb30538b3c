"""Bounds of the number of projects, and of their overrides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.projects import ProjectDo, ProjectReply, ProjectSet, ProjectUnset
from taskqueue.protocol.tasks import NewTasksReply
from taskqueue.protocol.values import NewTask
from taskqueue.settings.layer_size import MAX_LAYER_DEPTH, MAX_LAYER_MEMORY, MAX_OVERRIDES_MEMORY, memory_bytes
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import World, task

TEXT: dict[str, Any] = {"user_agent": "x" * 60_000}


def full_world(**fields: Any) -> World:
    """Make a world with three projects, which is the limit."""
    return World(CoreConfig(projects={"news": {}, "shop": {}}, max_projects=3, **fields))


def start(world: World, name: str) -> AnyReply:
    return world.answer(ProjectDo(session="person", n=world.n(), project=name, action="start"))


def say(world: World, name: str, **settings: Any) -> AnyReply:
    return world.answer(ProjectSet(session="person", n=world.n(), project=name, settings=settings))


def code(reply: AnyReply) -> str:
    return reply.code if isinstance(reply, ErrorReply) else ""


def test_beyond_max_projects_none_is_made_whoever_asks() -> None:
    world = full_world(auto_create=True)
    assert code(start(world, "third")) == ""

    refused = start(world, "fourth")
    assert isinstance(refused, ErrorReply)
    assert refused.code == "full"
    assert "limits.max_projects is 3" in refused.reason
    assert code(say(world, "fourth", rate=1)) == "full"
    pushed = world.ask(NewTasksReply, world.new_tasks("fourth", task("a")))
    assert pushed.outcomes == ["rejected"]
    assert "limits.max_projects" in pushed.errors[0].reason
    follow_up: NewTask = task("b", project="fifth")
    assert world.push("news", follow_up) == ["rejected"]


def test_when_a_project_is_deleted_another_may_be_made() -> None:
    world = full_world()
    start(world, "third")
    world.do("delete", "third")
    assert isinstance(start(world, "fourth"), ProjectReply)
    assert code(start(world, "third")) == "full"


def test_what_the_config_names_is_made_and_what_is_there_goes_on() -> None:
    world = full_world()
    start(world, "third")
    world.configure(replace(world.config, projects={"news": {}, "shop": {}, "fourth": {}}))

    assert world.push("fourth", task("a")) == ["new"]
    assert code(say(world, "third", rate=2)) == ""
    world.restart()
    assert world.push("third", task("a")) == ["new"]


WITHIN: dict[str, Callable[[Any], Any]] = {
    "fetch": lambda value: {"x": value},
    "on_failure": lambda value: {"url": "http://a/", "body": value},
    "on_finished": lambda value: {"url": "http://a/", "body": value},
    "cron": lambda value: {"nightly": {"every": "1d", "task": {"url": "http://a/", "body": value}}},
}


@pytest.mark.parametrize("setting", WITHIN)
def test_a_setting_that_programs_could_not_walk_through_is_refused(setting: str) -> None:
    world = full_world()

    refused = say(world, "news", **{setting: WITHIN[setting](nested(MAX_LAYER_DEPTH))})

    assert isinstance(refused, ErrorReply)
    assert refused.code == "setting"
    assert refused.reason == f"{setting}: nested too deep; at most {MAX_LAYER_DEPTH} values inside values are taken"
    assert code(say(world, "news", **{setting: WITHIN[setting](nested(MAX_LAYER_DEPTH - 5))})) == ""


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_settings_count_as_what_they_take_when_they_are_decoded() -> None:
    world = full_world()

    refused = say(world, "news", fetch={"x": [{}] * 60_000})
    assert isinstance(refused, ErrorReply)
    assert refused.code == "setting"
    assert refused.reason.startswith("fetch: ")
    assert f"at most {MAX_LAYER_MEMORY} are taken" in refused.reason
    assert code(say(world, "news", fetch=TEXT)) == ""


def test_what_is_said_of_all_projects_is_bounded_and_less_may_always_be_said() -> None:
    world = World(CoreConfig())
    names = [f"p{number:03}" for number in range(MAX_OVERRIDES_MEMORY // memory_bytes({"fetch": TEXT}))]
    for name in names:
        assert code(say(world, name, fetch=TEXT)) == ""
    assert code(say(world, "one-more", fetch=TEXT)) == "full"
    world.restart()
    assert code(say(world, "one-more", fetch=TEXT)) == "full"

    assert code(say(world, names[0], fetch=TEXT, rate=2)) in ("", "full")
    assert code(say(world, names[0], fetch={"user_agent": "short"})) == ""
    assert code(say(world, "one-more", fetch=TEXT)) == ""
    world.answer(ProjectUnset(session="person", n=world.n(), project="one-more", keys=[]))
    world.do("delete", names[1])
    assert code(say(world, "another", fetch=TEXT)) == ""
