"""What a planted bug is, and how it is noticed: by named tests, run in a process of their own.

The simulation notices what breaks a law (``tests/simulation/mutants.py``). What lies outside of it, such as threads,
sockets, files and clients, or is a bound that it does not come near, is noticed by tests: each mutant here names them.

A bug is planted in every Python process that the tests start, daemons included: the folder ``startup`` is on their
path, so that its ``sitecustomize`` runs before anything else; it plants what the environment names. Nothing in the
package knows of it.
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
"""Names the mutant that a process is to plant as it starts."""

NOT_PLANTED: Final = 97
"""Exit code of a process that could not plant it."""

STUMBLES: Final = ("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "TypeError", "SyntaxError")
"""Failures that show a badly planted bug, and no test that has noticed one."""

EARLY: Final = "ignore:Module already imported so cannot be rewritten"
"""A bug is planted before pytest begins, so that what it imports is there before pytest wants to rewrite it."""

AT_ONCE: Final = ("--exitfirst", "--timeout=120")
"""A bug that makes a test hang is noticed by its first case; one test of twelve took an hour to fail all."""

Replace = Callable[[Any, str, Any], Any]
"""Replaces an attribute of an object for good; returns the original."""


class Mutant(NamedTuple):
    """A planted bug and the tests that must notice it, as pytest names them, from the folder ``tests`` on.

    Attributes:
        plant: replaces functions of the program, in the process that calls it.
        tests: each of them must fail.
    """

    name: str
    plant: Callable[[Replace], None]
    tests: tuple[str, ...]


class Case(NamedTuple):
    """One test as it was run; ``failure``: the first line of why it failed, empty if it did not."""

    test: str
    failure: str


def replace(owner: Any, name: str, value: Any) -> Any:
    """See Replace."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    return original


def unnoticed(mutant: Mutant) -> list[str]:
    """What is wrong with how the mutant is noticed, in lines; none: each of its tests fails, as it must."""
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
