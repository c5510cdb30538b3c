"""Planted bugs, and the named tests that must notice them, run in a process of their own.

The simulation notices bugs that break a law (``tests/simulation/mutants.py``). Bugs outside of it, such as in threads,
sockets, files, clients or bounds that it does not reach, are noticed by tests: each mutant here names them.

A bug is planted in every Python process that the tests start, daemons included: the folder ``startup`` is on their
path, so that its ``sitecustomize`` runs before anything else; it plants the mutant that the environment names. The
package has no code for this.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

ROOT: Final = Path(__file__).parents[2]
STARTUP: Final = Path(__file__).parent / "startup"

VARIABLE: Final = "TASKQUEUE_TEST_MUTANT"
"""Environment variable with the mutant that a process plants as it starts."""

NOT_PLANTED: Final = 97
"""Exit status of a process that could not plant its mutant."""

STUMBLES: Final = ("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "TypeError", "SyntaxError")
"""Failures that show a badly planted bug rather than a test that notices one."""

EARLY: Final = "ignore:Module already imported so cannot be rewritten"
"""Warning to ignore: a bug is planted before pytest begins, and imports modules before pytest can rewrite them."""

AT_ONCE: Final = ("--exitfirst", "--timeout=120")
"""Options that end a hanging test at its first case; one with twelve cases took an hour to fail all."""

Replace = Callable[[Any, str, Any], Any]
"""Function that replaces an attribute of an object for good, and returns the original."""


class Mutant(NamedTuple):
    """Planted bug and the tests that must notice it, by pytest's names below the folder ``tests``.

    Attributes:
        plant: replaces functions of the program in the calling process.
        tests: tests that must all fail.
    """

    name: str
    plant: Callable[[Replace], None]
    tests: tuple[str, ...]


class Case(NamedTuple):
    """Test that was run; ``failure``: first line of its failure, empty if it passed."""

    test: str
    failure: str


def replace(owner: Any, name: str, value: Any) -> Any:
    """Replace an attribute of an object for good; return the original."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    return original


def unnoticed(mutant: Mutant) -> list[str]:
    """List problems with a mutant, a line each; empty if each of its tests fails, as it must."""
    cases = [case for test in mutant.tests for case in run([test], mutant.name, *AT_ONCE)]
    problems = [f"{test} stumbles: {failure}" for test, failure in cases if failure.startswith(STUMBLES)]
    failed = {case.test for case in cases if case.failure}
    return problems + [f"{test} passes" for test in mutant.tests if test not in failed]


def run(tests: Sequence[str], mutant: str = "", *options: str) -> list[Case]:
    """Run tests in a process of their own, with a mutant planted if one is named, and options of pytest."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        names = [f"tests/{test}" for test in dict.fromkeys(tests)]
        pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", EARLY]
        command = [*pytest, f"--junitxml={report}", *options, *names]
        paths = [str(STARTUP), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, VARIABLE: mutant, "PYTHONPATH": os.pathsep.join(paths)}
        for name in ("PYTEST_XDIST_WORKER", "TASKQUEUE_SHARE"):
            environment.pop(name, None)
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return [_case(element) for element in ElementTree.parse(report).iter("testcase")]


def _case(element: ElementTree.Element) -> Case:
    path = element.attrib["classname"].removeprefix("tests.").replace(".", "/")
    test = f"{path}.py::{element.attrib['name'].partition('[')[0]}"
    wrong = element.find("failure") if element.find("failure") is not None else element.find("error")
    return Case(test, "" if wrong is None else wrong.attrib.get("message", "").split("\n")[0] or "failed")
