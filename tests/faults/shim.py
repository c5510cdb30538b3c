"""Layer between a process and its disk and sockets: it records calls, and makes some of them fail.

``shim.c`` is compiled by the system's C compiler and preloaded into the process, so that the daemon and its engine are
the real ones. This module has its paths, the environment that configures it, and its rules, which are in a file that
both have in memory and may be changed at any moment.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

Call = Literal["open", "write", "pwrite", "sync", "sync-folder", "rename", "unlink", "truncate", "send"]
CALLS: Final[tuple[Call, ...]] = (
    "open", "write", "pwrite", "sync", "sync-folder", "rename", "unlink", "truncate", "send",
)  # fmt: skip
"""Calls in the order of the shim's numbers."""

SHORT: Final = 0
"""Value instead of an error: only a part is written, and the call says so."""

ALWAYS: Final = 1000
FOR_EVER: Final = 0xFFFFFFFF

WITH_BYTES: Final = {"FAULTS_BYTES": "1"}
WITHOUT_IPV6: Final = {"FAULTS_IPV4": "1"}

_RULE: Final = struct.Struct("=IiIIII40s")
_RULES: Final = 16

SOURCE: Final = Path(__file__).with_name("shim.c")


def build(folder: Path) -> Path:
    """Compile the shim into a folder; return the library.

    Raises:
        RuntimeError: there is no C compiler, or it fails.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("no C compiler (cc, gcc or clang) is here, which faults of the disk are made with")
    library = folder / "shim.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return library


class Shim:
    """Shim beneath a daemon.

    Attributes:
        store: folder of the watched files.
        record: file of its record; exists from the start of the process on.
        graves: folder with files that lost their names, named by their inodes.
        boot_id: file with the boot id that the process reads.
        environment: variables of the process; adding WITH_BYTES records written and sent bytes.
    """

    def __init__(self, library: Path, folder: Path, store: Path) -> None:
        """Make its files in a folder on the disk of the store."""
        self.store = store
        self.record = folder / "record"
        self.graves = folder / "graves"
        self.graves.mkdir(exist_ok=True)
        self.boot_id = folder / "boot_id"
        self.boot_id.write_text("first boot\n")
        rules = folder / "rules"
        rules.write_bytes(bytes(_RULE.size * _RULES))
        with rules.open("r+b") as file:
            self._rules = mmap.mmap(file.fileno(), 0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAULTS_FOLDER": str(store),
            "FAULTS_GRAVES": str(self.graves),
            "FAULTS_RULES": str(rules),
            "FAULTS_RECORD": str(self.record),
            "FAULTS_BOOT_ID": str(self.boot_id),
        }

    def fail(
        self,
        calls: Iterable[Call],
        error: int,
        part: str = "",
        *,
        skip: int = 0,
        count: int = 1,
        per_mille: int = ALWAYS,
    ) -> None:
        """Let calls fail from now on, beside earlier rules.

        Args:
            error: number of errno, or SHORT.
            part: text that a file's name must contain.
            skip, count: number of calls that work first, and of calls that fail then.
            per_mille: chance of each call to fail.
        """
        self._add(calls, error, part, skip, count, per_mille, held=0)

    def hold(self, calls: Iterable[Call], part: str = "") -> None:
        """Let calls wait from now on, until ``heal``."""
        self._add(calls, SHORT, part, 0, FOR_EVER, ALWAYS, held=1)

    def heal(self) -> None:
        """Let everything work from now on."""
        self._rules[:] = bytes(len(self._rules))

    @property
    def struck(self) -> bool:
        """Whether each call that was to fail has failed."""
        return not any(rule[3] for rule in _RULE.iter_unpack(self._rules[:]))

    def _add(
        self, calls: Iterable[Call], error: int, part: str, skip: int, count: int, per_mille: int, *, held: int
    ) -> None:
        bits = sum(1 << CALLS.index(call) for call in calls)
        rule = bytearray(_RULE.pack(bits, error, skip, count, per_mille, held, part.encode()))
        free = next(at for at in range(0, len(self._rules), _RULE.size) if not any(self._rules[at : at + _RULE.size]))
        # This field puts the rule in force, so it comes last.
        count_at = _RULE.size - 40 - 12
        rule[count_at : count_at + 4] = bytes(4)
        self._rules[free : free + _RULE.size] = bytes(rule)
        self._rules[free + count_at : free + count_at + 4] = struct.pack("=I", count)
