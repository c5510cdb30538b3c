"""Public names of ``taskqueue``, and that the core imports without them."""

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


def test_the_core_is_imported_without_zeromq() -> None:
    code = (
        "import sys, taskqueue.core.scheduler; print([m for m in ('zmq', 'asyncio', 'rocksdict') if m in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.strip() == "[]"
