"""Files that hold secrets or decide who comes in: only their owner may read and write them.

A reader refuses a file that others may read or write. A writer replaces the whole file, under a lock of its folder, so
that no reader sees half of it and two writers don't undo each other.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from taskqueue.errors import ConfigError

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_private(path: Path, most_bytes: int, what: str) -> bytes | None:
    """Read a private file; None if it does not exist.

    Args:
        what: its content, for errors, such as "tokens".

    Raises:
        ConfigError: others may read or write it, it can't be read, or it is longer than ``most_bytes``.
    """
    try:
        # A pipe must not keep the process waiting.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: the {what} can't be read: {error.strerror}") from None
    try:
        _check(path, os.fstat(file))
        written = os.read(file, most_bytes + 1)
        while len(written) <= most_bytes and (more := os.read(file, most_bytes + 1)):
            written += more
    finally:
        os.close(file)
    if len(written) > most_bytes:
        raise ConfigError(f"{path}: longer than {most_bytes} bytes, so not a list of {what}")
    return written


def write_private(path: Path, content: bytes, what: str) -> None:
    """Replace the file as a whole; of a link, the file that it leads to.

    Raises:
        ConfigError: it can't be written.
    """
    path = path.resolve()
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(file, "wb") as writing:
            writing.write(content)
            writing.flush()
            os.fsync(file)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise ConfigError(f"{path}: the {what} can't be written: {error.strerror}") from None


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Make the folder of a file if it is missing, and lock it while the block changes the file.

    Raises:
        ConfigError: there can't be such a folder.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path.parent}: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} is not a file")
    if flaw := flaw_of(found.st_uid, stat.S_IMODE(found.st_mode), os.geteuid()):
        raise ConfigError(f"{path} {flaw} {path}")


def flaw_of(owner: int, mode: int, reader: int) -> str:
    """Return why a file with this owner and mode is not private to a reader; empty: it is.

    Root may have given a file of its own to the reader's group. systemd passes credentials on like that: it gives the
    reader an access list, of which the mode, 0440, shows only the mask. Kubernetes does so with its fsGroup.
    """
    if reader == 0 != owner:
        return f"belongs to user {owner}; run this as that user, and keep it the owner of"
    if owner not in (reader, 0):
        return f"belongs to user {owner}, who could let anyone in; make yourself its owner: chown {reader}"
    allowed = stat.S_IRGRP if owner != reader else 0
    if mode & OTHERS & ~allowed:
        return f"has mode {mode:04o}, so others may read or write it: chmod {'440' if allowed else '600'}"
    return ""
