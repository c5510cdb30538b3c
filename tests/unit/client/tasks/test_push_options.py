"""Options of a push: one list of names, for all functions that take them, and for their help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import get_type_hints

import pytest
from msgspec import msgpack

from taskqueue import AsyncClient, Client, PushOptions, new_task
from taskqueue.client.asynchronous.flows import AsyncFlow
from taskqueue.client.blocking.flows import BlockingFlow
from taskqueue.client.tasks.push_options import OPTIONS
from taskqueue.client.tasks.pushes import as_new_task
from taskqueue.protocol.values import Schedule

TAKERS = [AsyncClient.push, Client.push, new_task, AsyncFlow.task, BlockingFlow.task]


@pytest.mark.parametrize("taker", TAKERS, ids=lambda taker: taker.__qualname__)
def test_help_explains_each_option(taker: Callable[..., object]) -> None:
    explained = inspect.getdoc(taker) or ""

    head = explained.partition("Options:")[2]
    lines = [line.partition(":")[0] for line in head.splitlines() if line.startswith("    ") and line[4] != " "]

    assert {name for line in lines for name in line.strip().split(", ")} == OPTIONS


@pytest.mark.parametrize("taker", TAKERS, ids=lambda taker: taker.__qualname__)
def test_the_options_of_a_push_are_typed_once(taker: Callable[..., object]) -> None:
    keywords = inspect.signature(taker).parameters["options"]

    assert (keywords.kind, keywords.annotation) == (inspect.Parameter.VAR_KEYWORD, "Unpack[PushOptions]")
    assert set(get_type_hints(PushOptions)) == OPTIONS


def test_whatever_a_schedule_may_say_is_an_option() -> None:
    assert set(Schedule.__struct_fields__) < OPTIONS


def test_an_option_that_is_unknown_is_named() -> None:
    with pytest.raises(TypeError, match=r"prio: unknown option; did you mean priority"):
        new_task("http://site/", prio=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "sent"), [({}, {}), ({"taskid": "a"}, {}), ({"priority": 1}, {"schedule": {"priority": 1}})]
)
def test_what_was_not_said_is_not_sent(options: PushOptions, sent: dict[str, object]) -> None:
    message = msgpack.decode(msgpack.encode(new_task("http://a/", **options)))

    del message["taskid"]
    assert message == {"url": "http://a/", **sent}


def test_what_is_said_as_none_is_as_if_it_were_not_said() -> None:
    said = new_task(
        "http://site/", taskid=None, exetime=None, delay=None, age=None, retries=None, fetch=None, body=None
    )

    assert said == new_task("http://site/") == as_new_task("http://site/")
