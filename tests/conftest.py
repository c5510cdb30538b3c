"""Environment of all tests, settings of hypothesis, and collection.

By default hypothesis is not random: each run tries the same examples, so that a build turns red only because of its
change. To look further: ``pytest tests/properties --hypothesis-profile=explore``.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Generator
from typing import Final
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, settings

OF_THE_SHELL: Final = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTHONWARNINGS", "PYTHONUNBUFFERED")
"""Variables that change what commands print."""
OF_A_DAEMON: Final = ("TASKQUEUE_", "PG")
"""Prefixes of variables for a daemon or a database of the user."""
OF_TESTS: Final = ("TASKQUEUE_TEST_", "TASKQUEUE_SHARE", "TASKQUEUE_NIGHTLY")
"""Prefixes of variables for the tests."""
CHOSEN: Final = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "xterm", "TASKQUEUE_TIMEOUT": "60s"}
"""Variables of all tests; commands wait for an answer as long as tests do, which share their cores."""
IGNORED_BY_PYTHON: Final = {signal.SIGPIPE, signal.SIGXFSZ}


def forget_the_shell() -> None:
    """Make this process, and all that tests start, begin as from a plain terminal.

    A script ignores SIGINT for its background processes, nohup ignores SIGHUP, a service has its own umask and locale;
    each process inherits them from its parent.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.umask(0o022)
    for name in {*os.environ, *OF_THE_SHELL}:
        is_foreign = name.startswith(OF_A_DAEMON) and not name.startswith(OF_TESTS)
        if is_foreign or name in OF_THE_SHELL or name.lower().endswith("_proxy"):
            os.environ.pop(name, None)
            os.unsetenv(name)  # readline, which pytest imports, sets COLUMNS where os.environ does not see it
    os.environ.update(CHOSEN)
    time.tzset()


forget_the_shell()

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
"""Health checks that depend on the machine's speed, which these tests are not about."""

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""Phases without ``explain`` and ``shrink``, which let a failing state machine take more minutes than a whole run has.
"""

settings.register_profile(
    "same", derandomize=True, deadline=None, database=None, phases=PHASES, suppress_health_check=QUIET
)
settings.register_profile(
    "explore", deadline=None, max_examples=3000, phases=[*PHASES, Phase.shrink], suppress_health_check=QUIET
)
settings.load_profile("same")


SHARE: Final = os.environ.get("TASKQUEUE_SHARE", "")
"""Build, ``interpreted`` or ``compiled``, that runs only a share of the tests of compiled modules; empty: it runs all.
Two builds of the same sources share the tests if there is no time to run each on both.
"""
SHARES: Final = 3
"""Number of shares: the interpreted build runs one, the compiled build, which takes half of the time, the others."""
VERSION: Final = sys.version_info.minor
"""Minor version of Python, which chooses the share: of the three that continuous integration runs, one runs a test
interpreted and two run it compiled. All processes of a run agree on it.
"""

SHARED: Final = (
    "tests/contract/",
    "tests/properties/",
    "tests/simulation/",
    "tests/unit/core/",
    "tests/unit/settings/",
    "tests/unit/store/records/",
    "tests/unit/store/test_",
    "tests/unit/hosts/test_url_hosts",
)
"""Tests that ``make test-compiled`` runs, and that take long."""
INTERPRETED: Final = "tests/simulation/test_mutants.py"
"""Tests that plant bugs, which compiled modules don't allow."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the other build runs."""
    if not SHARE:
        return
    is_compiled = ("interpreted", "compiled").index(SHARE) == 1
    mine: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for one in items:
        is_shared = one.nodeid.startswith(SHARED) and not one.nodeid.startswith(INTERPRETED)
        runs_compiled = (crc32(one.nodeid.encode()) + VERSION) % SHARES != 0
        (others if is_shared and runs_compiled != is_compiled else mine).append(one)
    config.hook.pytest_deselected(items=others)
    items[:] = mine


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Freeze collected objects: they live to the end, and the garbage collector's scans of them took a third of the
    time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
