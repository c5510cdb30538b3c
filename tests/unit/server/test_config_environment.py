"""Environment variables as settings, and the messages about bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.errors import ConfigError
from taskqueue.server.config import SECTIONS, Config, build, placed, set_elsewhere, variable, with_environment


def said(**variables: str) -> Config:
    return with_environment(Config(), variables)


def test_no_two_settings_have_the_same_variable_and_none_has_that_of_the_clients() -> None:
    names = [variable(section, key) for section, kind in SECTIONS.items() for key in kind.__struct_fields__]

    assert len(set(names)) == len(names)
    assert {"TASKQUEUE_BIND", "TASKQUEUE_STORE", "TASKQUEUE_DURABILITY", "TASKQUEUE_LOG_LEVEL"} < set(names)
    assert not {"TASKQUEUE_DAEMON", "TASKQUEUE_CONFIG", "TASKQUEUE_PID_FILE"} & set(names)


@pytest.mark.parametrize(
    ("name", "text", "section", "key", "value"),
    [
        ("TASKQUEUE_BIND", "tcp://0.0.0.0:7400", "daemon", "bind", ("tcp://0.0.0.0:7400",)),
        ("TASKQUEUE_BIND", '"tcp://0.0.0.0:7400"', "daemon", "bind", ("tcp://0.0.0.0:7400",)),
        ("TASKQUEUE_BIND", '["tcp://*:1", "ipc:///a"]', "daemon", "bind", ("tcp://*:1", "ipc:///a")),
        ("TASKQUEUE_DAEMON_IPC_ROLE", "viewer", "daemon", "ipc_role", "viewer"),
        ("TASKQUEUE_WEB", "127.0.0.1:7401", "daemon", "web", "127.0.0.1:7401"),
        ("TASKQUEUE_STORE", "/data", "store", "path", "/data"),
        ("TASKQUEUE_STORE", "postgresql://db.example/crawl", "store", "url", "postgresql://db.example/crawl"),
        ("TASKQUEUE_DURABILITY", "interval", "store", "durability", "interval"),
        ("TASKQUEUE_LOG_LEVEL", "debug", "daemon", "log_level", "debug"),
        ("TASKQUEUE_DAEMON_AUTO_CREATE", "true", "daemon", "auto_create", True),
        ("TASKQUEUE_DAEMON_FETCHER_TIMEOUT", " 7.5 ", "daemon", "fetcher_timeout", 7.5),
        ("TASKQUEUE_STORE_CACHE", "1 GiB", "store", "cache", 1 << 30),
        ("TASKQUEUE_STORE_CACHE", "1_048_576", "store", "cache", 1 << 20),
        ("TASKQUEUE_LIMITS_MAX_LEASES", "7", "limits", "max_leases", 7),
        ("TASKQUEUE_WEBHOOK_URL", "http://ann:secret@site/", "webhook", "url", "http://ann:secret@site/"),
        ("TASKQUEUE_WEBHOOK_EVENTS", '["paused"]', "webhook", "events", ("paused",)),
    ],
)
def test_a_variable_says_a_setting(name: str, text: str, section: str, key: str, value: Any) -> None:
    assert getattr(getattr(said(**{name: text}), section), key) == value


def test_the_environment_wins_over_the_file_and_leaves_what_it_does_not_say() -> None:
    file = build({"daemon": {"bind": "tcp://*:1", "auto_create": True}}, "file")

    config = with_environment(file, {"TASKQUEUE_BIND": "tcp://*:2", "TASKQUEUE_STORE": "", "HOME": "/"})

    assert (config.daemon.bind, config.daemon.auto_create) == (("tcp://*:2",), True)
    assert config.store == file.store


def test_a_folder_that_a_variable_names_replaces_the_database_of_the_file() -> None:
    file = build({"store": {"url": "postgresql://db.example/crawl"}}, "file")

    config = with_environment(file, {"TASKQUEUE_STORE": "/data"})

    assert (config.store.path, config.store.url) == ("/data", "")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "TASKQUEUE_BIND",
            "7400",
            ' must be an address such as "tcp://127.0.0.1:7400", or a list of 1 to 16 of them, not 7400',
        ),
        (
            "TASKQUEUE_LIMITS_MAX_LEASES",
            "many",
            ' must be a whole number of at least 1 and at most 100_000_000, not "many"',
        ),
        ("TASKQUEUE_DAEMON_AUTO_CREATE", "yes", ' must be true or false, not "yes"'),
        ("TASKQUEUE_STORE_PATH", "/data", " is not read; this setting is TASKQUEUE_STORE"),
        ("TASKQUEUE_WEBHOOK_URL", "ann:secret@site", ' must be empty or an address such as "https://example.org/hook"'),
        ("TASKQUEUE_LIMITS_MEMRY", "1", " is not a setting; did you mean TASKQUEUE_LIMITS_MEMORY?"),
        ("TASKQUEUE_LIMITS_HEAD_TASKS", "1", " is not a setting; did you mean TASKQUEUE_ADVANCED_HEAD_TASKS?"),
        ("TASKQUEUE_DAEMON_DURABILITY", "none", " is not a setting; did you mean TASKQUEUE_DURABILITY?"),
        ("TASKQUEUE_WEBHOOK_EVENTS", "paused", None),
    ],
)
def test_a_variable_that_cant_be_used_is_refused_by_its_name(name: str, text: str, reason: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        said(**{name: text})

    assert str(caught.value).startswith(f"{name}{reason or ' must be a list of 1 to '}")


@pytest.mark.parametrize(
    "name",
    ["TASKQUEUE_STORE_PORT", "TASKQUEUE_STORE_SERVICE_HOST", "TASKQUEUE_DAEMON_PORT_7400_TCP", "TASKQUEUE_DAEMON"],
)
def test_a_variable_that_is_like_no_setting_is_somebody_elses(name: str) -> None:
    assert said(**{name: "tcp://10.0.0.1:7400"}) == Config()


def test_each_variable_that_cant_be_used_has_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        said(TASKQUEUE_BIND="x", TASKQUEUE_STORE_CACHE="x")

    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == [
        "TASKQUEUE_BIND",
        "TASKQUEUE_STORE_CACHE",
    ]


def test_a_problem_names_the_file_variables_and_options_that_set_its_settings() -> None:
    variables = {"TASKQUEUE_STORE_HANDOUT": "synced", "TASKQUEUE_STORE_CACHE": " ", "TASKQUEUE_STORE": "/data"}
    options = {("store", "path"): "postgresql://db.example/crawl", ("daemon", "log_level"): "info"}
    elsewhere = set_elsewhere(variables, options)

    assert elsewhere == {
        ("store", "handout"): "TASKQUEUE_STORE_HANDOUT",
        ("store", "path"): "TASKQUEUE_STORE",
        ("store", "url"): "--store",
        ("daemon", "log_level"): "--log-level",
    }
    assert placed("store.url: wrong\na.toml: store.url: wrong", "a.toml", elsewhere) == (
        "--store: store.url: wrong\na.toml: store.url: wrong"
    )
    assert placed("daemon.bind: without daemon.keys or store.handout", "a.toml", elsewhere) == (
        "a.toml and TASKQUEUE_STORE_HANDOUT: daemon.bind: without daemon.keys or store.handout"
    )
    assert placed("daemon.bind: wrong", None, elsewhere) == "daemon.bind: wrong"
    assert placed("daemon.toml: can't be read", "daemon.toml", elsewhere) == "daemon.toml: can't be read"
