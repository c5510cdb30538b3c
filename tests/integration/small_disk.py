"""Disks that another program can fill.

    SmallDisk     a real one, in memory, of some MB; where this user may mount one
    QuotaDisk     any folder; the daemon's engine is told to refuse what a full disk makes it refuse

On both the same tests run. ``entry`` is the program of a daemon whose store is to lie there.
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
    """A file system in memory, mounted on a folder."""

    entry = ENTRY

    def __init__(self, folder: Path) -> None:
        self.store_path = folder / "data"
        self._others = folder / "others"

    def fill(self) -> None:
        """What another program writes takes all that is left."""
        with open(self._others, "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        """What the other program wrote goes."""
        self._others.unlink()


class QuotaDisk:
    """A folder beside which a file says what the engine gets to hear; see ``quota_main``."""

    entry = QUOTA_ENTRY

    def __init__(self, folder: Path) -> None:
        self.store_path = folder / "data"
        self._refusal = folder / "refusal"

    def fill(self, code: int = ENOSPC) -> None:
        """From now on the engine hears this error of the system."""
        self._refusal.write_text(str(code))

    def make_room(self) -> None:
        """From now on the engine hears no error any more."""
        self._refusal.unlink()


@contextmanager
def mounted(folder: Path, mib: int = DISK_MIB) -> Iterator[None]:
    """A file system of so many MiB in memory.

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
    """This user may mount a file system."""
    if os.geteuid() != 0:
        return False
    with TemporaryDirectory() as folder, suppress(OSError), mounted(Path(folder)):
        return True
    return False
