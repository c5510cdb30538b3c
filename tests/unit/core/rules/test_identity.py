"""Identity of tasks: project and taskid."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue import new_task
from taskqueue.store.records import layout
from tests.unit.core.conftest import WALL, World, task
from tests.unit.core.rules.conftest import DAY, FORCE, LIVE, OVER, bring

PAGE = "http://example.org/page"


def test_the_same_taskid_in_another_project_is_another_task(world: World) -> None:
    assert world.push("news", task("a"), task("a", project="shop")) == ["new", "new"]

    assert world.fetcher().taken == ["a", "a"]


def test_a_url_with_another_fragment_is_the_same_task(world: World) -> None:
    assert world.push("news", new_task(PAGE), new_task(f"{PAGE}#top")) == ["new", "ignored"]


@pytest.mark.parametrize("url", ["http://example.org/page/", "http://example.org/Page", "http://example.org/page?b=1"])
def test_a_url_that_differs_in_anything_else_is_another_task(world: World, url: str) -> None:
    assert world.push("news", new_task(PAGE), new_task(url)) == ["new", "new"]


@pytest.mark.parametrize("fetch", [{"method": "POST"}, {"data": "page=2"}, {"method": "POST", "data": "page=2"}])
def test_a_request_with_another_method_or_other_data_is_another_task(world: World, fetch: dict[str, Any]) -> None:
    assert world.push("news", new_task(PAGE), new_task(PAGE, fetch=fetch)) == ["new", "new"]
    assert world.push("news", new_task(PAGE, fetch=fetch)) == ["ignored"]


def test_headers_make_no_other_task(world: World) -> None:
    assert world.push("news", new_task(PAGE), new_task(PAGE, fetch={"headers": {"A": "b"}})) == ["new", "ignored"]


def test_a_taskid_of_ones_own_decides_whatever_the_url(world: World) -> None:
    tasks = [new_task(PAGE, taskid="7"), new_task(f"{PAGE}/other", taskid="7"), new_task(PAGE, taskid="8")]

    assert world.push("news", *tasks) == ["new", "ignored", "new"]


def test_a_taskid_has_1_to_128_bytes() -> None:
    assert new_task(PAGE, taskid="x" * 128).taskid == "x" * 128

    for taskid in ("", "x" * 129, "é" * 65):
        with pytest.raises(ValueError, match="taskid"):
            new_task(PAGE, taskid=taskid)


def test_a_project_name_has_1_to_64_ascii_letters_digits_and_three_signs() -> None:
    assert new_task(PAGE, project="A-z_0." + "9" * 58).project

    for name in ("", "9" * 65, "two words", "a/b", "é", ".", ".."):
        with pytest.raises(ValueError, match="project"):
            new_task(PAGE, project=name)


# ---------------------------------------------------------------------------------------- when it first came


@pytest.mark.parametrize("state", [*LIVE, *OVER])
def test_a_task_tells_when_it_first_came_whatever_has_become_of_it(world: World, state: str) -> None:
    world.advance(60.7)
    bring(world, state)
    world.advance(60.0)
    assert world.show("a").pushed_at == WALL + 60

    world.push("news", task("a", priority=9), task("a", **FORCE))
    world.restart()
    assert world.show("a").pushed_at == WALL + 60


def test_a_task_that_was_forgotten_and_comes_again_first_came_then(world: World) -> None:
    bring(world, "ready")
    world.do("reset")
    world.advance(60.0)

    world.push("news", task("a"))
    assert world.show("a").pushed_at == WALL + 60


def test_a_bare_task_still_tells_when_it_first_came(world: World) -> None:
    world.set(keep={"success": 60.0, "then": "remember"})
    bring(world, "success")
    world.advance(DAY)

    shown = world.show("a")
    assert shown.bare_since
    assert shown.pushed_at == WALL
    world.push("news", task("a", **FORCE))
    assert world.show("a").pushed_at == WALL


def test_of_a_task_that_came_before_this_was_kept_it_is_unknown(world: World) -> None:
    bring(world, "delayed")
    (known,) = world.known()
    known.pushed_at = 0
    place = layout.order_key(known.project, known.key)
    for family, key in ((layout.IDS, layout.id_key(known.project, "a")), (layout.ORDERS[known.state], place)):
        world.disk.families[family].values[key] = layout.encode_record(known)

    world.restart()
    assert world.show("a").pushed_at == 0
    world.push("news", task("a", **FORCE))
    assert world.show("a").pushed_at == 0
