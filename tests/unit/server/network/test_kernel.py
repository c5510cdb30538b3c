"""The kernel's facts about connections, by their descriptors, which are reused."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from taskqueue.server.network import kernel


class Pair(NamedTuple):
    """Both ends of a connection."""

    here: socket.socket
    there: socket.socket


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def connect(listener: socket.socket) -> Pair:
    there = socket.create_connection(listener.getsockname())
    return Pair(listener.accept()[0], there)


def test_a_connection_is_cut_by_its_cookie(listener: socket.socket) -> None:
    here, there = connect(listener)
    with closing(here), closing(there):
        assert kernel.cut(here.fileno(), kernel.cookie(here.fileno()))

        with pytest.raises(ConnectionResetError):
            there.recv(1)


def test_what_a_connection_has_brought_when_it_is_cut_is_not_read_any_more(listener: socket.socket) -> None:
    here, there = connect(listener)
    with closing(here), closing(there):
        there.sendall(bytes(1000))
        assert here.recv(1000, socket.MSG_PEEK | socket.MSG_WAITALL) == bytes(1000)

        assert kernel.cut(here.fileno(), kernel.cookie(here.fileno()))

        with pytest.raises(OSError, match=r"reset|not connected"):
            here.recv(1000)


def test_a_connection_that_has_ended_is_not_cut_by_the_descriptor_that_another_one_has_now(
    listener: socket.socket,
) -> None:
    former, latter = connect(listener), connect(listener)
    descriptor = former.here.fileno()
    cookie = kernel.cookie(descriptor)
    os.dup2(latter.here.fileno(), descriptor)

    assert not kernel.cut(descriptor, cookie)

    latter.there.sendall(b"x")
    assert latter.here.recv(1) == b"x"
    for end in (*former, *latter):
        end.close()


def test_what_has_arrived_is_told_in_bytes(listener: socket.socket) -> None:
    here, there = connect(listener)
    with closing(here), closing(there):
        there.sendall(b"12345")
        assert here.recv(5) == b"12345"

        progress = kernel.progress(here.fileno())

        assert progress is not None
        assert progress.received == 5
