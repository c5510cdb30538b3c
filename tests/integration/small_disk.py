"""Disks that another program can fill.

    SmallDisk     a real file system of some MB in memory, where this user may mount one
    QuotaDisk     any folder; the daemon's engine fails as on a full disk

The same tests run on both. ``entry`` is the module of a daemon whose store lies on the disk.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.integration.conftest import ENTRY

DISK_MIB: Final = 24

QUOTA_ENTRY: Final = "from tests.integration.quota_main import limit; limit(); " + ENTRY


class SmallDisk:
    """File system in memory, mounted on a folder."""

    entry = ENTRY

    def __init__(self, folder: Path) -> None:
        self.store_path = folder / "data"
        self._others = folder / "others"

    def fill(self) -> None:
        """Fill the disk, as another program would."""
        with open(self._others, "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        """Delete the other program's file."""
        self._others.unlink()


class QuotaDisk:
    """Folder beside which a file names the error that the engine raises (``quota_main``)."""

    entry = QUOTA_ENTRY

    def __init__(self, folder: Path) -> None:
        self.store_path = folder / "data"
        self._refusal = folder / "refusal"

    def fill(self, code: int = ENOSPC) -> None:
        """Make the engine raise this system error from now on."""
        self._refusal.write_text(str(code))

    def make_room(self) -> None:
        """Let the engine work again."""
        self._refusal.unlink()


@contextmanager
def mounted(folder: Path, mib: int = DISK_MIB) -> Iterator[None]:
    """Mount a file system of ``mib`` MiB in memory.

    Raises:
        OSError: this user may not mount one.
    """
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        raise PermissionError(f"can't mount a file system on {folder}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def may_mount() -> bool:
    """Whether this user may mount a file system."""
    if os.geteuid() != 0:
        return False
    with TemporaryDirectory() as folder, suppress(OSError), mounted(Path(folder)):
        return True
    return False
