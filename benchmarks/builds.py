"""Builds of taskqueue measured in the same rounds: this one, a compiled one, and an earlier one.

    python -m benchmarks.lifecycle --compiled build/compiled --before /tmp/before/.venv

Each is a virtual environment in which taskqueue is installed, and only the daemon is started with its Python: producer
and fetcher, the same for all, run on that of the benchmark, except where they are measured too (benchmarks.clients).
The daemon of another build reads neither the folder it is started in nor PYTHONPATH, so that it takes what is installed
there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

CORE: Final = "import taskqueue.core.scheduler as core; print(core.__file__)"


class Build(Struct, frozen=True):
    """Build to measure.

    Attributes:
        label: suffix of its rows' names; empty for this build.
        python: its interpreter; empty for that of the benchmark.
    """

    label: str = ""
    python: str = ""

    def of(self, row: str) -> str:
        """Return the name of this build's row."""
        return f"{row}, {self.label}" if self.label else row

    def command(self, module: str) -> list[str]:
        """Make the command that runs a module of this build, or a benchmark on it, which ``make compiled`` lets it
        find."""
        # Another build must not import this build's sources, which lie in the current folder.
        return [self.python, "-P", "-m", module] if self.python else [sys.executable, "-m", module]


HERE: Final = Build()
COMPILED: Final = "compiled"
BEFORE: Final = "before"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --compiled and --before."""
    parser.add_argument("--compiled", type=Path, metavar="VENV", help="venv of a compiled taskqueue, measured too")
    parser.add_argument("--before", type=Path, metavar="VENV", help="venv of an earlier taskqueue, measured too")


def builds(options: argparse.Namespace) -> list[Build]:
    """Return this build and those of the command line.

    Raises:
        SystemExit: one of them has no taskqueue, or one that should be compiled is not.
    """
    found = [HERE]
    if options.compiled:
        build = _build(COMPILED, options.compiled)
        if _core(build).suffix == ".py":
            raise SystemExit(f"{options.compiled}: its taskqueue is not compiled")
        found.append(build)
    if options.before:
        found.append(_build(BEFORE, options.before))
    return found


def builds_of_today(options: argparse.Namespace) -> list[Build]:
    """Return the builds without the earlier one, which may speak another protocol, or know no database."""
    return [build for build in builds(options) if build.label != BEFORE]


def add_option_of_one(parser: argparse.ArgumentParser) -> None:
    """Add --compiled to a benchmark with a single daemon."""
    parser.add_argument("--compiled", type=Path, metavar="VENV", help="venv of a compiled taskqueue to measure")


def only_build(options: argparse.Namespace) -> Build:
    """Return the compiled build, if the command line names it, or this one.

    Raises:
        SystemExit: it is not compiled.
    """
    return builds(argparse.Namespace(compiled=options.compiled, before=None))[-1]


def _build(label: str, venv: Path) -> Build:
    build = Build(label, str(venv.absolute() / "bin" / "python"))
    _core(build)
    return build


def _core(build: Build) -> Path:
    """Find the file of the core's scheduler module."""
    if not Path(build.python).exists():
        raise SystemExit(f"there is no {build.python}")
    said = subprocess.run([build.python, "-I", "-c", CORE], stdout=subprocess.PIPE, check=False)
    if said.returncode:
        raise SystemExit(f"{build.python} has no taskqueue")
    return Path(said.stdout.decode().strip())
