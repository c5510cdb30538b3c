"""Public names of ``taskqueue``, and what is imported with them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import taskqueue
from taskqueue import errors


def test_every_public_name_is_there() -> None:
    for name in taskqueue.__all__:
        assert getattr(taskqueue, name).__name__ == name
        assert name in dir(taskqueue)


def test_every_error_of_the_client_is_public() -> None:
    tree = [error for error in vars(errors).values() if isinstance(error, type)]

    assert {error.__name__ for error in tree if issubclass(error, errors.ClientError)} <= set(taskqueue.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Ghost'"):
        taskqueue.Ghost  # noqa: B018


@pytest.mark.parametrize(
    ("imported", "unneeded"),
    [
        ("from taskqueue import canonical_url, default_taskid, links, new_task", {"zmq", "asyncio"}),
        ("from taskqueue import Client", {"taskqueue.client.worker", "taskqueue.client.hyperlinks"}),
    ],
)
def test_a_name_is_imported_without_what_only_others_need(imported: str, unneeded: set[str]) -> None:
    code = f"import sys; {imported}; print(*{unneeded} & set(sys.modules))"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == []
