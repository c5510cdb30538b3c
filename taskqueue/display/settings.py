"""What is told of a project's settings: their values, and who said them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from taskqueue.protocol.fields import Setting
from taskqueue.protocol.projects import ProjectView

SAID: Final = "project set"
"""Who says a setting that was set while the daemon ran."""

LAYERS: Final = {"project": "config file", "defaults": "[defaults]"}


def text(value: Setting) -> str:
    """A setting as ``parse`` reads it."""
    if isinstance(value, list | tuple):
        return ",".join(text(part) for part in value)
    if isinstance(value, dict) or value is None:
        return json.dumps(value, ensure_ascii=False, default=repr)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def flat(settings: Mapping[str, Setting]) -> Iterator[tuple[str, Setting]]:
    """Settings by the names that ``project unset`` takes; those of tables key by key."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from ((f"{name}.{key}", part) for key, part in value.items())
        else:
            yield name, value


def is_empty(value: Setting) -> bool:
    """Whether a setting has an empty value, which means that it isn't used."""
    return value is None or value in ("", {})


def said_by(view: ProjectView, name: str) -> str:
    """Who says a setting of a project, or one key of a table, by its flat name."""
    if name in dict(flat(view.overrides)):
        return SAID
    where = view.configured.get(name.partition(".")[0], [])
    if not where and name == "rate" and view.settings.get("bucket"):
        return "bucket"
    return ", ".join(LAYERS[layer] for layer in where) or "default"
