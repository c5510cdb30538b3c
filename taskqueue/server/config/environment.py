"""Settings from environment variables, for containers: they override the config file, and the command line overrides
them.

One rule: TASKQUEUE_, the section and the key, in capitals: TASKQUEUE_LIMITS_MEMORY_BYTES, TASKQUEUE_WEBHOOK_URL. A
setting for which `taskqueue scheduler` has an option is named like the option: TASKQUEUE_BIND, TASKQUEUE_STORE.

A value is written as in the file; a text may omit its quotes. An empty variable is ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskqueue.errors import SettingError
from taskqueue.server.config.config_file import SECTIONS, Config, meant_key, override
from taskqueue.settings import schema

PREFIX: Final = "TASKQUEUE_"
OPTIONS: Final = {
    ("server", "bind"): "BIND",
    ("server", "log_level"): "LOG_LEVEL",
    ("server", "web"): "WEB",
    ("store", "path"): "STORE",
    ("store", "durability"): "DURABILITY",
}
"""Names of the options of ``taskqueue scheduler``, by section and key."""


def variable(section: str, key: str) -> str:
    """The name of a setting's variable."""
    return PREFIX + OPTIONS.get((section, key), _long(section, key))


def with_environment(config: Config, environ: Mapping[str, str]) -> Config:
    """The config, overridden by environment variables.

    Raises:
        SettingError: with all problems, one a line, each with the name of its variable.
    """
    problems = []
    for section, kind in SECTIONS.items():
        for key in kind.__struct_fields__:
            name = variable(section, key)
            if PREFIX + _long(section, key) != name and environ.get(PREFIX + _long(section, key)):
                problems.append(f"{PREFIX}{_long(section, key)} is not read; this setting is {name}")
            elif text := environ.get(name, "").strip():
                values = [*_values(text)]
                found = [_problem(section, key, value) for value in values]
                if None in found:
                    config = override(config, section, key, values[found.index(None)])
                else:
                    problems.append(f"{name}{found[-1]}")
    if problems:
        raise SettingError("\n".join(problems))
    return config


def _long(section: str, key: str) -> str:
    return f"{section}_{key}".upper()


def _values(text: str) -> Iterator[Any]:
    """What a text may mean: itself, or the TOML value that it is."""
    yield text
    try:
        yield from tomllib.loads(f"value = {text}").values()
    except (tomllib.TOMLDecodeError, RecursionError):
        return


def _problem(section: str, key: str, value: Any) -> str | None:
    """What is wrong with a value, without the setting's name; None: nothing."""
    key = meant_key(section, key, value)
    problem = next(iter(schema.problems(section, {key: value}, SECTIONS[section])), None)
    return problem and problem.removeprefix(schema.path(section, key))
