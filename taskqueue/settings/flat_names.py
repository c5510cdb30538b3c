"""Flat names of settings, with a dot between a table and its key: ``slot.delay``, ``cron.daily``.

Users choose the keys of ``cron``, ``fetch`` and ``slot.patterns``: all that follows is one key, even with dots, such as
``*.example.org`` in ``slot.patterns.*.example.org``. It may be in quotes, as in the config file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from taskqueue.protocol.fields import Setting
from taskqueue.settings import reader
from taskqueue.settings.description import described
from taskqueue.settings.settings import Settings


def flat(settings: Mapping[str, Setting], kind: type[Struct] = Settings) -> Iterator[tuple[str, Setting]]:
    """Yield settings by their flat names; a cron entry, a pattern and an empty table are one value each."""
    known = described(kind)
    for name, value in settings.items():
        setting = known.get(name)
        if not isinstance(value, dict) or not value or (setting is not None and setting.form != "table"):
            yield name, value
        else:
            section = None if setting is None else setting.section
            inner = value.items() if section is None else flat(value, section)
            yield from ((f"{name}.{key}", part) for key, part in inner)


def keys_of(name: str, kind: type[Struct] = Settings) -> list[str]:
    """Split a flat name into its keys, the outermost first."""
    first, dot, rest = name.partition(".")
    setting = described(kind).get(first)
    if not dot or setting is None or setting.form != "table":
        return [name]
    return [first, *(keys_of(rest, setting.section) if setting.section else [_unquoted(rest)])]


def misspelt(keys: Sequence[str], kind: type[Struct] = Settings, where: str = "") -> str:
    """Say which key is not a setting, and suggest similar ones; empty if all are settings."""
    first, *rest = keys
    setting = described(kind).get(first)
    if setting is None:
        return reader.unknown(where, first, kind)
    return misspelt(rest, setting.section, reader.path(where, first)) if rest and setting.section else ""


def _unquoted(key: str) -> str:
    if not key.startswith('"'):
        return key
    try:
        return str(json.loads(key))
    except ValueError:
        return key
