"""Files in MessagePack: tasks that are pushed from one arrive with their bodies byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest

from taskqueue.cli.main import main

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, PeerFactory

ODD = b"\x84\xa1a\xcd\x00\x01\xa1b\xc4\x02\xff\x00\xa1c\xca\x41\x20\x00\x00\x07\xd4\x05x"
"""A map with a number in a longer form than it needs, bytes, a short float, a key that is a number, an extension."""

Capture = pytest.CaptureFixture[str]


def packed_task(url: str, body: bytes) -> bytes:
    return b"\x82" + b"".join(map(msgpack.packb, ["url", url, "body"])) + body


def test_tasks_of_a_msgpack_file_arrive_with_their_bodies_byte_for_byte(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path, capsys: Capture
) -> None:
    it = daemon()
    file = tmp_path / "tasks.msgpack"
    long = msgpack.packb(b"\xff" * 3_000_000)
    file.write_bytes(packed_task("http://site/odd", ODD) + packed_task("http://site/long", long))

    assert main(["push", "news", "--file", str(file), "--url", it.url]) == 0

    assert capsys.readouterr().out == "2 new, 0 merged, 0 ignored, 0 rejected\n"
    fetcher = peer(it)
    fetcher.ask("hello", capacity=2)
    frames = b""
    while ODD not in frames or long not in frames:
        frames += fetcher.socket.recv()


def test_what_is_wrong_in_a_msgpack_file_is_said_and_the_rest_is_pushed(
    daemon: DaemonFactory, tmp_path: Path, capsys: Capture
) -> None:
    it = daemon()
    file = tmp_path / "tasks.msgpack"
    file.write_bytes(
        b"".join(map(msgpack.packb, [{"url": "http://site/a"}, {"url": "nonsense"}, {"url": "http://site/b"}]))
    )
    with file.open("ab") as more:
        more.write(b"\x81\xa3ur")

    assert main(["push", "news", "--file", str(file), "--url", it.url]) == 1

    out, err = capsys.readouterr()
    assert out == "2 new, 0 merged, 0 ignored, 2 rejected\n"
    first, second = err.splitlines()
    assert first.startswith(f"taskqueue push: {file}: task 2: ")
    assert second == f"taskqueue push: {file}: it ends within the value that begins at byte 52"
