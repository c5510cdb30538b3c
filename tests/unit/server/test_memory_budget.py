"""The memory that settings allow must fit into the daemon's limit."""

from __future__ import annotations

import pytest

from taskqueue.errors import ConfigError
from taskqueue.server import limits
from taskqueue.server.config import Config, override


def test_the_defaults_fit() -> None:
    limits.check_memory(Config())


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("advanced", "queue_bytes", "1 GiB"), ("limits", "max_leases", 10_000_000), ("store", "cache", "2 GiB")],
)
def test_what_does_not_fit_is_refused_with_what_would(section: str, key: str, value: object) -> None:
    config = override(Config(), section, key, value)

    with pytest.raises(
        ConfigError, match=r"limits.memory = 1 GiB is too little for .*, or set limits.memory = "
    ) as told:
        limits.check_memory(config)

    limits.check_memory(override(config, "limits", "memory", str(told.value).split('"')[1]))
    assert "\n" not in str(told.value)
