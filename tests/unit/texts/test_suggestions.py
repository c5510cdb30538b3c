"""Suggestions for an unknown name: the most similar known one, wherever the name comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskqueue import new_task
from taskqueue.client.tasks.pushes import as_new_task
from taskqueue.texts.suggestions import there_are


def test_the_name_that_is_most_alike_is_said_first() -> None:
    assert there_are("rat", ("burst", "rate")) == "did you mean rate? There are burst, rate"
    assert there_are("xyz", ("burst", "rate")) == "there are burst, rate"


def test_of_many_names_those_alone_are_told_that_are_like_it() -> None:
    many = ("min_delay", "max_delay", *"abcdefgh")

    assert there_are("min_dely", many) == "did you mean min_delay or max_delay?"
    assert there_are("xyz", many) == f"there are {', '.join(many)}"


@pytest.mark.parametrize(
    "make",
    [lambda: new_task("http://a/", prioritty=3), lambda: as_new_task({"url": "http://a/", "prioritty": 3})],  # type: ignore[call-arg]
)
def test_a_client_says_which_field_of_a_task_is_meant(make: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"did you mean priority\?"):
        make()
