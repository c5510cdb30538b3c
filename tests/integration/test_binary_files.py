"""MessagePack files keep bodies byte for byte, when tasks are pushed and when a store is moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest

from taskqueue.cli.main import main

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, PeerFactory

ODD = b"\x84\xa1a\xcd\x00\x01\xa1b\xc4\x02\xff\x00\xa1c\xca\x41\x20\x00\x00\x07\xd4\x05x"
"""Map with a number in a longer form than needed, bytes, a short float, a numeric key, an extension."""

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

    assert main(["push", "news", "--file", str(file), "--daemon", it.url]) == 0

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

    assert main(["push", "news", "--file", str(file), "--daemon", it.url]) == 1

    out, err = capsys.readouterr()
    assert out == "2 new, 0 merged, 0 ignored, 2 rejected\n"
    first, second = err.splitlines()
    assert first.startswith(f"taskqueue push: {file}: task 2: ")
    assert second == f"taskqueue push: {file}: it ends within the value that begins at byte 52"


def test_a_store_that_is_moved_in_messagepack_hands_out_the_same_bodies(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path, capsys: Capture
) -> None:
    it, file = daemon(), tmp_path / "tasks.msgpack"
    file.write_bytes(packed_task("http://site/odd", ODD) + packed_task("http://site/next", ODD))
    main(["push", "news", "--file", str(file), "--daemon", it.url])
    export, again = tmp_path / "crawl.msgpack", tmp_path / "again.jsonl"

    assert main(["store", "export", "-c", str(it.config_file), "-o", str(export)]) == 0
    assert main(["store", "import", str(export), "--store", str(tmp_path / "new")]) == 0

    assert capsys.readouterr().out.endswith("brought in 2 tasks, made 1 project\n")
    main(["store", "export", "--store", str(tmp_path / "new"), "--format", "msgpack", "-o", str(again)])
    assert again.read_bytes() == export.read_bytes()
    moved = daemon(path=str(tmp_path / "new"))
    fetcher = peer(moved)
    fetcher.ask("hello", capacity=2)
    assert fetcher.socket.recv().count(ODD) == 2


def test_an_export_that_is_cut_off_is_said(tmp_path: Path, capsys: Capture) -> None:
    parts = [
        {"taskqueue": 1, "projects": [{"name": "news"}]},
        {"project": "news", "taskid": "a", "state": "ready", "url": "u"},
    ]
    file = tmp_path / "crawl.msgpack"
    file.write_bytes(b"".join(map(msgpack.packb, parts)) + b"\x81")

    assert main(["store", "import", str(file), "--store", str(tmp_path / "new")]) == 1

    assert "it ends within the value that begins at byte" in capsys.readouterr().err
