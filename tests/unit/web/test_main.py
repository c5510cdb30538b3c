"""Open files and socket options of the web process."""

from __future__ import annotations

import socket

import pytest

from taskqueue.web.main import BACKLOG, FILES_ELSE, FILES_OF_USERS, _listen, _shares


@pytest.mark.parametrize("files", [100, 256, 1024, 3136, 100_000])
def test_connections_accepted_and_waiting_and_all_else_have_files_enough(files: int) -> None:
    backlog, connections = _shares(files)

    assert 0 < backlog <= BACKLOG
    assert connections >= backlog
    assert backlog + connections + FILES_ELSE == files


@pytest.mark.parametrize("files", [100, 1024, 3136, 100_000])
def test_connections_of_users_leave_browsers_a_quarter_of_the_files(files: int) -> None:
    backlog, connections = _shares(files, FILES_OF_USERS)

    assert backlog + connections == max(files - FILES_ELSE - FILES_OF_USERS, (files - FILES_ELSE) // 4)


def test_no_response_waits_for_the_receipt_of_its_first_part() -> None:
    with _listen("127.0.0.1", 0, 1) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
