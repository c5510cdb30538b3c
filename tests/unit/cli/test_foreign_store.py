"""Store folders of other origin: whatever lies in them, no command reads, writes or waits for anything outside."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from taskqueue.store.files.file_snapshot import FileSnapshot
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.unit.cli.conftest import Run, with_store

LINES = [
    '{"taskqueue":1,"projects":[{"name":"news"}]}',
    '{"project":"news","taskid":"a","state":"ready","url":"http://site/a"}',
    '{"tasks":1}',
]

SECRET = "ssh-ed25519 AAAA me@home\n"

LOOKING = [["check"], ["show"], ["show", "--by", "project"], ["export"], ["backup", "copy"]]
WRITING = [["compact"], ["import", "--merge", "export.jsonl"]]
RESTORING = ["restore", "foreign", "--store", "mine"]
REPAIRING = ["repair", "foreign", "mine"]

TERABYTE = 1 << 40


@pytest.fixture
def foreign(run: Run) -> Path:
    """Store with a task."""
    Path("export.jsonl").write_text("\n".join(LINES) + "\n")
    assert run("import", "export.jsonl", "--store", "foreign")[0] == 0
    return Path("foreign")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """File outside of the store, which no command may read or write."""
    file = tmp_path / "home" / "authorized_keys"
    file.parent.mkdir()
    file.write_text(SECRET)
    return file


def of_store(command: list[str]) -> list[str]:
    return command if command in (RESTORING, REPAIRING) else with_store(command, "foreign")


def manifest(folder: Path) -> str:
    return (folder / "CURRENT").read_text().strip()


def refused(found: tuple[int, str, str], *words: str) -> None:
    """Assert that the command was refused in one line."""
    status, shown, said = found
    assert (status, shown, said.count("\n")) == (1, "", 1), found
    assert said.startswith("taskqueue: foreign: ")
    for word in words:
        assert word in said


@pytest.mark.parametrize("command", [*LOOKING, *WRITING, RESTORING, REPAIRING], ids=" ".join)
@pytest.mark.parametrize(
    "name", ["../home/authorized_keys", "/etc/passwd", "x/MANIFEST-000005", "MANIFEST-٣", "LOCK", ""]
)
def test_current_that_names_another_file_is_refused(
    run: Run, foreign: Path, planted: Path, command: list[str], name: str
) -> None:
    (foreign / "CURRENT").write_text(f"{name}\n")

    refused(run(*of_store(command)), f'CURRENT names "{name}"', "restore the store from a backup")

    assert planted.read_text() == SECRET


def test_what_current_names_is_quoted_without_what_a_terminal_would_obey(run: Run, foreign: Path) -> None:
    (foreign / "CURRENT").write_bytes(b"\x1b]0;owned\x07\xff" + b"x" * 1000)

    refused(run("check", "foreign"), r'CURRENT names "\u001b]0;owned\u0007\xff' + "x" * 10, "…")


@pytest.mark.parametrize("command", [*LOOKING, RESTORING, REPAIRING], ids=" ".join)
@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST", "000777.sst", "000777.log"])
def test_a_link_to_a_file_outside_is_not_followed(
    run: Run, foreign: Path, planted: Path, command: list[str], name: str
) -> None:
    name = manifest(foreign) if name == "MANIFEST" else name
    (foreign / name).unlink(missing_ok=True)
    (foreign / name).symlink_to(planted)

    refused(run(*of_store(command)), f"{name} is a symbolic link", "remove it")

    assert planted.read_text() == SECRET


NEVER_WRITTEN = ["CURRENT", "IDENTITY", "LOCK", "LOG", "rocksdict-config.json", "MANIFEST-000999", "000999.dbtmp",
                 "OPTIONS-000999.dbtmp", "000999.log", "000999.sst", "anything"]  # fmt: skip


@pytest.mark.parametrize("command", WRITING, ids=" ".join)
@pytest.mark.parametrize("name", NEVER_WRITTEN)
def test_a_store_that_is_written_to_has_no_links(
    run: Run, foreign: Path, planted: Path, command: list[str], name: str
) -> None:
    (foreign / name).unlink(missing_ok=True)
    (foreign / name).symlink_to(planted)

    refused(run(*of_store(command)), f"{name} is a symbolic link")

    assert planted.read_text() == SECRET


def test_names_that_no_command_opens_do_no_harm_to_looking(run: Run, foreign: Path, planted: Path) -> None:
    for name in ("LOCK", "LOG", "rocksdict-config.json", "OPTIONS-000999", "x.sst", "000001.sst.log"):
        (foreign / name).unlink(missing_ok=True)
        (foreign / name).symlink_to(planted)

    assert run("check", "foreign")[0] == 0

    assert planted.read_text() == SECRET


def test_the_lock_of_the_store_that_a_restore_replaces_is_no_link_either(
    run: Run, foreign: Path, planted: Path
) -> None:
    shutil.copytree("foreign", "copy")
    (foreign / "LOCK").unlink()
    (foreign / "LOCK").symlink_to(planted)

    refused(run("restore", "copy", "--replace", "--store", "foreign"), "LOCK is a symbolic link")

    assert (foreign / "LOCK").is_symlink()
    assert planted.read_text() == SECRET


@pytest.mark.parametrize("command", [*LOOKING, *WRITING, RESTORING, REPAIRING], ids=" ".join)
@pytest.mark.parametrize("name", ["000777.sst", "000777.log", "CURRENT"])
def test_nothing_waits_for_a_pipe(run: Run, foreign: Path, command: list[str], name: str) -> None:
    (foreign / name).unlink(missing_ok=True)
    os.mkfifo(foreign / name)

    refused(run(*of_store(command)), f"{name} is a pipe")


def test_a_socket_and_a_folder_are_no_tables(run: Run, foreign: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("foreign/000777.sst")
        refused(run("check", "foreign"), "000777.sst is a socket")
    (foreign / "000777.sst").unlink()
    (foreign / "000777.sst").mkdir()
    refused(run("check", "foreign"), "000777.sst is a folder")


@pytest.mark.parametrize("command", [*LOOKING, *WRITING, RESTORING, REPAIRING], ids=" ".join)
@pytest.mark.parametrize("name", ["MANIFEST", "CURRENT", "000777.log"])
def test_a_file_that_says_it_has_a_terabyte_is_not_read(run: Run, foreign: Path, command: list[str], name: str) -> None:
    name = manifest(foreign) if name == "MANIFEST" else name
    os.truncate(foreign / name, TERABYTE) if (foreign / name).exists() else None
    with (foreign / name).open("ab") as file:
        file.truncate(TERABYTE)

    refused(run(*of_store(command)), f"{name} has 1,099,511,627,776 bytes")


@pytest.mark.parametrize("name", ["OPTIONS-000999", "IDENTITY", "rocksdict-config.json"])
def test_what_only_the_engine_reads_is_not_large_either(run: Run, foreign: Path, name: str) -> None:
    with (foreign / name).open("ab") as file:
        file.truncate(TERABYTE)

    refused(run("compact", "foreign"), f"{name} has 1,099,511,627,776 bytes")


def test_the_folder_that_the_user_names_may_be_a_link(run: Run, foreign: Path) -> None:
    Path("link").symlink_to("foreign")

    assert run("check", "link")[0] == 0
    assert run("compact", "link")[0] == 0
    assert run("backup", "copy", "--store", "link")[0] == 0


def test_other_files_and_folders_in_it_are_left_alone(run: Run, foreign: Path) -> None:
    (foreign / "README").write_text("Ours.")
    (foreign / "lost+found").mkdir()

    assert run("compact", "foreign")[0] == 0
    assert (foreign / "README").read_text() == "Ours."


# ------------------------------------------------------------------------------------------------ copies


def with_table(path: Path) -> None:
    with closing(RocksStore(path)) as store:
        store.begin()
        store.compact()


def test_a_table_that_became_a_link_since_it_was_opened_is_copied_as_it_was(tmp_path: Path, planted: Path) -> None:
    with_table(tmp_path / "store")
    with closing(FileSnapshot(str(tmp_path / "store"))) as snapshot:
        for name in snapshot.tables:
            (tmp_path / "store" / name).unlink()
            (tmp_path / "store" / name).symlink_to(planted)
        (tmp_path / "copy").mkdir()
        snapshot.copy_to(str(tmp_path / "copy"))
        kept = {name: os.fstat(file.fileno()).st_size for name, file in snapshot.tables.items()}

    assert {name: (tmp_path / "copy" / name).lstat().st_size for name in kept} == kept
    assert not any(path.is_symlink() for path in (tmp_path / "copy").iterdir())


def test_tables_are_linked_by_a_backup_and_a_restored_store_shares_none_that_others_may_write(
    run: Run, tmp_path: Path
) -> None:
    with_table(tmp_path / "store")
    assert run("backup", "copy", "--store", "store")[0] == 0
    linked = {path.name for path in Path("copy").glob("*.sst") if path.stat().st_nlink == 2}
    assert linked

    for path in Path("copy").glob("*.sst"):
        path.chmod(0o666)
    assert run("restore", "copy", "--store", "mine")[0] == 0

    assert all((Path("mine") / name).stat().st_nlink == 1 for name in linked if (Path("mine") / name).exists())


def test_only_its_owner_may_read_a_copy_though_others_could_read_the_store(run: Run, foreign: Path) -> None:
    foreign.chmod(0o7777)

    assert run("backup", "copy", "--store", "foreign")[0] == 0

    assert stat.S_IMODE(Path("copy").stat().st_mode) == 0o700


def test_a_copy_of_a_file_with_holes_has_holes(run: Run, foreign: Path) -> None:
    with (foreign / "000777.log").open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 26)
        file.write(b"end")

    assert run("backup", "copy", "--store", "foreign")[0] == 0

    copied = Path("copy/000777.log")
    assert copied.stat().st_blocks * 512 < 4 << 20
    with copied.open("rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(1 << 26)
        assert file.read() == b"end"
