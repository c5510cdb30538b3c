"""How hypothesis looks for counterexamples, and how tests are collected.

By default it is not random: the same examples in each run, so that a build that turns red does so because of the change
that it builds. To look further: ``pytest tests/properties --hypothesis-profile=explore``.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, settings

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
"""How long an example takes depends on the machine; it is not what these tests are about."""

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""Without ``explain`` and ``shrink``, which let a failing state machine take more minutes than a whole run has."""

settings.register_profile(
    "same", derandomize=True, deadline=None, database=None, phases=PHASES, suppress_health_check=QUIET
)
settings.register_profile(
    "explore", deadline=None, max_examples=3000, phases=[*PHASES, Phase.shrink], suppress_health_check=QUIET
)
settings.load_profile("same")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """What is collected lives to the end; to have the garbage collector look at it was a third of what this cost."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
