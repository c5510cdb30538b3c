"""Start on a store whose settings no longer fit the config."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from taskqueue.errors import StoreError
from taskqueue.settings.settings import Pace
from taskqueue.store.records import layout
from tests.unit.core.conftest import MakeWorld, World, task


def say_in_the_store(world: World, project: str, **settings: object) -> None:
    """Write settings into a project's record, as a version with other settings may have done."""
    values = world.disk.families[layout.PROJECTS].values
    for key, value in values.items():
        record = layout.decode_project(value)
        if record.name == project:
            values[key] = msgspec.msgpack.encode(replace(record, overrides=settings))


def test_a_setting_in_the_store_that_cannot_be_is_told_with_its_project(world: World) -> None:
    say_in_the_store(world, "shop", rate=-1)

    with pytest.raises(StoreError, match=r'invalid setting of project "shop": rate must be .* not -1'):
        world.restart()


def test_a_shared_bucket_that_the_config_names_no_more_lets_nothing_through(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"bucket": "site"}}, buckets={"site": Pace(1, 5)})
    world.push("news", task("a"))
    world.fetcher().done("a")

    world.config = replace(world.config, buckets={})
    world.restart()
    world.push("news", task("b"))

    assert world.fetcher(name="next").taken == []
