"""Results of public methods: values of taskqueue.types, frozen, each with the fields of its reply."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import taskqueue
from taskqueue import AsyncClient, Client, http, robots, types
from taskqueue.client.fetcher.intake import BlockingIntake, Intake
from taskqueue.protocol import base, messages
from taskqueue.protocol.base import AnyReply, Reply, without_envelope
from taskqueue.protocol.tasks import TaskReply

ENVELOPE = set(Reply.__struct_fields__)

OWN = {"daemon-reply": {"projects_stand"}, "status-reply": {"projects", "more", "fetchers", "found", "numbers"}}
"""Fields of replies that other methods page through, or that only the web process requests."""


def namespaces(client: Any) -> list[Any]:
    """Classes of a client's namespaces."""
    module = inspect.getmodule(client)
    return [
        getattr(module, name) for name in re.findall(r"self\.[a-z]+ = ([A-Z]\w+)\(", inspect.getsource(client.__init__))
    ]


STRUCTS: list[Any] = [kind for name in types.__all__ if isinstance(kind := getattr(types, name), type)]
FROZEN = [kind for kind in STRUCTS if kind not in (types.TaskCounts, types.EventTotals)]
"""Frozen types: all but those in which the daemon counts."""

WITH_FIELDS: list[Any] = [
    *STRUCTS,
    *(kind for name in taskqueue.__all__ if hasattr(kind := getattr(taskqueue, name), "__struct_fields__")),
    taskqueue.Reported,
    http.Page,
]

DOCUMENTED: list[Any] = [
    *(getattr(module, name) for module in (taskqueue, http, robots) for name in module.__all__),
    *(kind for client in (AsyncClient, Client) for kind in namespaces(client)),
    Intake,
    BlockingIntake,
]
"""Public classes and functions, and those that a client returns."""

PUBLIC = {
    *taskqueue.__all__, *types.__all__, *http.__all__, *robots.__all__, *dir(builtins),
    *(name for kind in DOCUMENTED for name in dir(kind) if not name.startswith("_")),
    *(field for kind in STRUCTS for field in kind.__struct_fields__),
    "Location",
}  # fmt: skip
"""Names that readers may be sent to; the last one is a header."""

FLAT = [kind for kind in messages.REPLY_TO.values() if not issubclass(kind, Reply)]

PLAIN = {
    "None", "str", "int", "float", "bool", "list", "tuple", "Any", "Self", "asyncio", "Future", "Iterator", "Iterable",
    "AsyncGenerator", "AbstractAsyncContextManager", "AbstractContextManager", "Intake", "BlockingIntake", "Cancelled",
    "AsyncFlow", "BlockingFlow", "builtins",
}  # fmt: skip
"""Words of annotations that are not types of messages."""


def returned(client: Any) -> Iterator[tuple[str, str]]:
    """Public methods of a client and of its namespaces, with the words of what they return."""
    for owner in (client, *namespaces(client)):
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


def described(kind: type) -> Iterator[str]:
    """Fields with a description: in the docstring of their class or of a base, or in a docstring of their own."""
    for owner in kind.__mro__[:-1]:
        if owner.__module__.startswith("taskqueue"):
            for names in re.findall(r"^    (\w[\w, ]*): \S", inspect.cleandoc(owner.__doc__ or ""), re.MULTILINE):
                yield from names.split(", ")
            body = ast.parse(inspect.getsource(owner)).body[0]
            assert isinstance(body, ast.ClassDef)
            for field, text in zip(body.body, body.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    yield ast.unparse(field.target)


@pytest.mark.parametrize("kind", WITH_FIELDS, ids=lambda kind: kind.__name__)
def test_each_field_of_a_public_type_has_a_description(kind: Any) -> None:
    fields = getattr(kind, "__struct_fields__", None) or kind._fields

    assert set(fields) - set(described(kind)) == set()


@pytest.mark.parametrize("kind", DOCUMENTED, ids=lambda kind: kind.__name__)
def test_docstrings_of_public_names_send_readers_to_public_names_only(kind: Any) -> None:
    methods = [member for name, member in inspect.getmembers(kind) if not name.startswith("_")]
    text = "\n".join(inspect.getdoc(each) or "" for each in (kind, *(methods if isinstance(kind, type) else ())))

    classes = set(re.findall(r"``(?:[a-z]+\.)*([A-Z]+(?:_[A-Z]+)+|[A-Z]+[a-z]\w*)(?:\.\w+)*``", text))
    sent_to = {name.rpartition(".")[2] for name in re.findall(r"\b[Ss]ee\s+``([\w.]+)``", text)}

    assert (classes | sent_to) - PUBLIC == set()


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
