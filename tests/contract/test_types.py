"""What public methods return: values of taskqueue.types, frozen, each with the fields of the reply that it came in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import taskqueue
from taskqueue import AsyncClient, Client, types
from taskqueue.protocol import base, messages
from taskqueue.protocol.base import AnyReply, Reply, without_envelope
from taskqueue.protocol.tasks import TaskReply

ENVELOPE = set(Reply.__struct_fields__)

OWN = {"daemon-reply": {"projects_stand"}, "status-reply": {"projects", "more", "fetchers", "found", "numbers"}}
"""Fields of replies that are asked for by pages of their own, or by the web process only."""

STRUCTS: list[Any] = [kind for name in types.__all__ if isinstance(kind := getattr(types, name), type)]
FROZEN = [kind for kind in STRUCTS if kind not in (types.TaskCounts, types.EventTotals)]
"""All but those in which the daemon counts."""

FLAT = [kind for kind in messages.REPLY_TO.values() if not issubclass(kind, Reply)]

PLAIN = {
    "None", "str", "int", "float", "bool", "list", "tuple", "Any", "Self", "asyncio", "Future", "Iterator", "Iterable",
    "AsyncGenerator", "AbstractAsyncContextManager", "AbstractContextManager", "Intake", "BlockingIntake", "Cancelled",
    "AsyncFlow", "BlockingFlow", "builtins",
}  # fmt: skip
"""Words of annotations that name no type of messages."""


def returned(client: Any) -> Iterator[tuple[str, str]]:
    """Public methods of a client and of its namespaces, with the words of what they return."""
    source = inspect.getsource(client.__init__)
    module = inspect.getmodule(client)
    owners = [client, *(getattr(module, name) for name in re.findall(r"self\.[a-z]+ = (\w+)\(", source))]
    for owner in owners:
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_"):
                for word in re.findall(r"[A-Za-z]\w*", str(method.__annotations__.get("return", "None"))):
                    yield f"{owner.__name__}.{name}", word


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_what_a_public_method_returns_is_public(client: Any) -> None:
    public = {*types.__all__, *taskqueue.__all__} | PLAIN

    found = list(returned(client))

    assert {(method, word) for method, word in found if word not in public} == set()
    assert len({method.partition(".")[0] for method, _ in found}) > 10


@pytest.mark.parametrize("reply", FLAT, ids=lambda kind: kind.__name__)
def test_what_users_get_of_a_reply_has_its_fields_but_for_the_envelope(reply: type[Struct]) -> None:
    given: Any = reply.__mro__[1]

    own = ENVELOPE | OWN.get(str(reply.__struct_config__.tag), set())
    assert set(given.__struct_fields__) == set(reply.__struct_fields__) - own
    assert given in STRUCTS


def test_no_type_of_users_is_a_message() -> None:
    assert [kind for kind in STRUCTS if issubclass(kind, AnyReply | base.Request)] == []
    assert [kind for kind in STRUCTS if kind.__struct_config__.tag is not None] == []


@pytest.mark.parametrize("kind", FROZEN, ids=lambda kind: kind.__name__)
def test_types_of_users_are_frozen_and_have_a_docstring(kind: type[Struct]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__doc__


def test_a_reply_without_its_envelope_equals_another_one_that_answers_another_request() -> None:
    task: dict[str, Any] = {
        "project": "p",
        "taskid": "t",
        "url": "http://a/",
        "state": "ready",
        "schedule": types.Schedule(),
    }
    one, other = (without_envelope(types.TaskDetails, TaskReply(n=n, **task)) for n in (1, 2))

    assert one == other
    assert type(one) is types.TaskDetails


def test_the_program_of_the_page_names_only_public_types_in_sixty_lines() -> None:
    program = (Path(__file__).parents[2] / "examples" / "administer.py").read_text()

    assert len(program.splitlines()) <= 60
    assert set(re.findall(r"^(?:from|import) (\S+)", program, re.MULTILINE)) == {"sys", "collections.abc", "taskqueue"}
