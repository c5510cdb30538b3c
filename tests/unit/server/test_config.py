"""The config file: defaults, what is refused and in what words, and what a reload changes."""

from __future__ import annotations

import tomllib
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskqueue.core.settings import CoreConfig, Settings, merge
from taskqueue.errors import ConfigError
from taskqueue.server.config import SECTIONS, Config, build, core_config, load, override, reloaded

SHIPPED = Path(__file__).parents[3] / "conf" / "taskqueue.toml"


def refusal(text: str) -> list[str]:
    """What is said of a file with this text, line by line."""
    with pytest.raises(ConfigError) as caught:
        build(tomllib.loads(text), "conf/taskqueue.toml")
    return str(caught.value).splitlines()


def loaded(text: str) -> Config:
    return build(tomllib.loads(text), "conf/taskqueue.toml")


# ---------------------------------------------------------------------------------------- the shipped file


def test_the_shipped_file_says_exactly_the_defaults() -> None:
    shipped = load(str(SHIPPED))

    assert msgspec.structs.replace(shipped, defaults={}) == Config() == load(None)
    assert merge(shipped.defaults) == Settings()


def test_the_shipped_file_has_every_setting() -> None:
    tables = tomllib.loads(SHIPPED.read_text())

    for section, kind in (SECTIONS | {"defaults": Settings}).items():
        assert list(tables[section]) == list(kind.__struct_fields__)


def test_every_setting_of_the_shipped_file_has_a_comment() -> None:
    settings = [line for line in SHIPPED.read_text().splitlines() if "=" in line and line[0] not in "#["]

    assert [line for line in settings if "  # " not in line] == []


def test_the_core_is_told_its_own_defaults_if_the_file_says_nothing() -> None:
    assert core_config(Config(), "1.0") == CoreConfig(version="1.0")


# ---------------------------------------------------------------------------------------- what it may say


@pytest.mark.parametrize(
    ("text", "size"),
    [("8388608", 8 << 20), ('"8 MiB"', 8 << 20), ('"4096"', None), ('"64KiB"', 64 << 10), ('"8 MB"', None)],
)
def test_a_size_is_a_number_of_bytes_or_a_text_with_a_unit(text: str, size: int | None) -> None:
    if size is None:
        assert "server.max_message must be a size" in refusal(f"[server]\nmax_message = {text}")[0]
    else:
        assert loaded(f"[server]\nmax_message = {text}").server.max_message == size


def test_a_project_lies_over_the_defaults() -> None:
    config = loaded("[defaults]\nrate = 5\nburst = 2\n[projects.news]\nrate = inf")

    assert merge(config.defaults, config.projects["news"]) == Settings(rate=inf, burst=2.0)


def test_a_select_message_is_never_longer_than_what_the_daemon_would_take() -> None:
    config = loaded('[server]\nmax_message = "64 KiB"')

    assert core_config(config, "").select_bytes == 64 << 10


# ---------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[projects.news]\nburst = "many"', 'projects.news.burst must be a number of at least 1 or inf, not "many"'),
        ("[defaults]\nrate = nan", "defaults.rate must be a number of at least 0 or inf, not nan"),
        (
            "[defaults]\nretries = true",
            "defaults.retries must be a whole number of at least 0 and at most 1_000_000, not true",
        ),
        (
            "[defaults]\nretry_delay = []",
            "defaults.retry_delay must be a list of 1 to 100 items, "
            "each a number of at least 0 and at most 1_000_000_000, not []",
        ),
        (
            "[server]\nfetcher_timeout = 0",
            "server.fetcher_timeout must be a number of more than 0 and at most 1_000_000, not 0",
        ),
        ("[server]\nauto_create = 1", "server.auto_create must be true or false, not 1"),
        ('[server]\nbind = "7400"', 'server.bind must be an address such as "tcp://127.0.0.1:7400", not "7400"'),
        (
            "[server]\nmax_message = 5",
            'server.max_message must be a size such as "8 MiB" of at least 4 KiB and at most 1 GiB, not 5',
        ),
        ('[store]\ndurability = "yes"', 'store.durability must be one of "commit", "interval", "none", not "yes"'),
        ("[store]\npath = 7", "store.path must be a text, not 7"),
        ("[store]\nengine = 7", "store.engine is not a setting; there are path, durability, cache"),
        (
            "[projects.news]\nspeed = 7",
            "projects.news.speed is not a setting; "
            "there are rate, burst, processing_timeout, retries, retry_delay, max_queue",
        ),
        ("[project]\nrate = 7", "project is not a section; there are server, store, limits, defaults, projects"),
        ("projects = 7", "projects must be a section, not 7"),
        ("[projects]\nnews = 7", "projects.news must be a section, not 7"),
        ("[projects.a.b]\nrate = 7", 'projects.a.b is not a setting; a name with a dot needs quotes: [projects."a.b"]'),
        ('[projects."a b"]', 'projects."a b": a project name is 1 to 64 letters, digits, "_", "-" and "."'),
    ],
)
def test_what_cant_be_used_is_refused_with_file_key_and_reason(text: str, reason: str) -> None:
    assert refusal(text) == [f"conf/taskqueue.toml: {reason}"]


def test_all_problems_of_a_file_are_reported_at_once() -> None:
    lines = refusal("[server]\nbnd = 1\nmax_sessions = 0\n[projects.news]\nburst = 0")

    assert [line.split()[1] for line in lines] == ["server.bnd", "server.max_sessions", "projects.news.burst"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[server]\nbind = ", "not TOML: Invalid value (at end of document)"),
        (b"[server]\nbind : 7\n", "not TOML: Expected '=' after a key in a key/value pair (at line 2, column 6)"),
        (b"\xff", "not UTF-8 at byte 0"),
    ],
)
def test_a_file_that_is_no_toml_is_refused_with_the_place(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "taskqueue.toml"
    file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load(str(file))

    assert str(caught.value) == f"{file}: {reason}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml: can't be read: No such file or directory"):
        load(str(tmp_path / "nothing.toml"))


def test_a_setting_said_elsewhere_wins_and_is_checked_too() -> None:
    assert override(Config(), "store", "durability", "none").store.durability == "none"
    with pytest.raises(ConfigError, match=r'store\.durability must be one of .* not "maybe"'):
        override(Config(), "store", "durability", "maybe")


# ---------------------------------------------------------------------------------------- reload


def reload(old: dict[str, Any], new: dict[str, Any]) -> tuple[Config, list[str]]:
    return reloaded(build(old, "old"), build(new, "new"))


def test_a_reload_changes_what_can_change_while_running() -> None:
    new = {"server": {"fetcher_timeout": 5}, "limits": {"turn_tasks": 7}, "projects": {"news": {"rate": 9}}}

    config, waiting = reload({}, new)

    assert (config, waiting) == (build(new, "new"), [])


def test_a_reload_keeps_what_needs_a_restart_and_names_it() -> None:
    old = {"server": {"bind": "tcp://*:1"}, "store": {"path": "here"}}
    new = {"server": {"bind": "tcp://*:2", "log_level": "debug"}, "store": {"path": "there", "durability": "none"}}

    config, waiting = reload(old, new)

    assert waiting == ["server.bind", "store.path", "store.durability"]
    assert (config.server.bind, config.store.path, config.store.durability) == ("tcp://*:1", "here", "commit")
    assert config.server.log_level == "debug"
