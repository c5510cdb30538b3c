"""The script makes the blocking client from the asynchronous one; docs/reference/python.md describes both."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskqueue import AsyncClient, Client
from tools import blocking_client, reference

ROOT = Path(blocking_client.__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "python.md"
NAMESPACES = (
    "projects", "groups", "tasks", "slots", "operations", "flows", "cron", "fetchers", "stats", "daemon", "log",
)  # fmt: skip


def methods(thing: object) -> dict[str, inspect.Signature]:
    """Return the public methods of an object, with their signatures."""
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(thing, inspect.isroutine)
        if not name.startswith("_")
    }


def every_day() -> set[str]:
    """Methods of the client itself that the page names."""
    rows = re.findall(r"^\| .* \|$", PAGE.read_text().partition("<!-- made: namespaces -->")[0], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.strip("| ").partition(" | ")[2])}


@pytest.fixture
def client() -> Iterator[Client]:
    with Client("tcp://127.0.0.1:9") as it:
        yield it


def test_the_blocking_client_is_what_the_script_makes() -> None:
    assert list(blocking_client.differing(blocking_client.twins())) == []


def test_the_script_notices_a_change_and_a_file_that_is_not_its_own(tmp_path: Path) -> None:
    made = {tmp_path / "same.py": "1", tmp_path / "changed.py": "2", tmp_path / "missing.py": "3"}
    for name, text in (("same", "1"), ("changed", "1"), ("stray", "1")):
        (tmp_path / f"{name}.py").write_text(text)

    differing = [path.stem for path in blocking_client.differing(made, tmp_path)]

    assert differing == ["changed", "missing", "stray"]


def test_nothing_of_what_the_script_makes_is_asynchronous() -> None:
    texts = [path.read_text() for path in blocking_client.TARGET.glob("*.py")]

    kinds = {type(node) for text in texts for node in ast.walk(ast.parse(text))}
    words = {word for text in texts for word in re.findall(r"\b(?:await|async)\b|event loop", text)}

    assert len(texts) > 5
    assert kinds & {ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef} == set()
    assert words == set()


def test_both_clients_have_the_same_methods(client: Client) -> None:
    twin = AsyncClient("tcp://127.0.0.1:9")

    for name in NAMESPACES:
        assert methods(getattr(client, name)).keys() == methods(getattr(twin, name)).keys()
    assert methods(client).keys() == methods(twin).keys()
    for name, signature in methods(client).items():
        assert signature.parameters.keys() == methods(twin)[name].parameters.keys()


def test_the_page_about_the_client_names_each_method(client: Client) -> None:
    assert every_day() - {"Worker"} == methods(client).keys() - {"close"}


def test_the_reference_has_each_namespace_with_its_methods(client: Client) -> None:
    found = {name: set(reference.methods(kind)) for name, kind in reference.namespaces_of(client).items()}

    assert found == {name: set(methods(getattr(client, name))) for name in NAMESPACES}
