"""What the settings allow the daemon to take has to fit into what it may take."""

from __future__ import annotations

import pytest

from taskqueue.errors import ConfigError
from taskqueue.server.config.config_file import Config, override
from taskqueue.server.limits import memory_budget


def test_the_defaults_fit() -> None:
    memory_budget.check(Config())


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("limits", "memory_bytes", "1 GiB"), ("limits", "max_leases", 10_000_000), ("store", "cache", "2 GiB")],
)
def test_what_does_not_fit_is_refused_with_what_would(section: str, key: str, value: object) -> None:
    config = override(Config(), section, key, value)

    with pytest.raises(
        ConfigError, match=r"limits.memory = 1 GiB is too little for .*, or set limits.memory = "
    ) as told:
        memory_budget.check(config)

    memory_budget.check(override(config, "limits", "memory", str(told.value).split('"')[1]))
    assert "\n" not in str(told.value)
