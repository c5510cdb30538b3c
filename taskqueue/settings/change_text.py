"""Changed settings in one line, for ``taskqueue log``: ``rate=5 (was 20) -fetch.proxy``.

    name=new (was old)    it has changed, or was set to the same value again
    name=new              it was not set before
    -name (was old)       no longer set

Tables (``slot``, ``keep``, ``cron``) are listed field by field. Values of ``fetch``, ``on_finished``,
``on_failure`` and of a cron entry's ``task`` and ``tasks`` are never shown, because they may contain passwords: only
that they are set, or no longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from taskqueue.protocol.fields import Setting
from taskqueue.settings.reader import shown

VALUE_CHARS: Final = 60
"""Longest value, in characters; the rest is cut."""

OLD_VALUES_MOST: Final = 3
"""Different old values of one setting of many projects that are shown, at most; the most frequent first."""

HIDDEN: Final = frozenset(("fetch", "on_finished", "on_failure"))
HIDDEN_FIELDS: Final = frozenset(("task", "tasks"))

Texts = Mapping[str, str]
"""Texts of values by flat name, such as ``cron.daily.every``; empty for hidden values."""


def values(settings: Mapping[str, Setting], names: Iterable[str]) -> dict[str, str]:
    """Return texts of these settings by flat name; absent and unused ones are missing."""
    return {flat: text for name in names if name in settings for flat, text in _flat(name, settings[name])}


def pairs(before: Sequence[Texts], after: Texts, said: Iterable[str]) -> str:
    """Describe what has changed, and what was set to the same value again.

    Args:
        before: texts of each changed project; empty for a new project.
        said: flat names, or their first parts.
    """
    names = {name: None for texts in (after, *before) for name in texts}
    prefixes = tuple(f"{name}." for name in said)
    return " ".join(
        _pair(name, before, after)
        for name in names
        if f"{name}.".startswith(prefixes) or any(old.get(name) != after.get(name) for old in before)
    )


def pairs_of_many(before: Sequence[Texts], after: Sequence[Texts], said: Iterable[str]) -> str:
    """Describe what has changed in any of these projects, and what was set, which is now the same in all.

    Each project is compared with itself: in tables such as ``cron`` it has keys of its own that are unchanged.
    """
    prefixes = tuple(f"{name}." for name in said)
    both = list(zip(before, after, strict=True))
    changed = {name for old, new in both for name in (*old, *new) if old.get(name) != new.get(name)}

    def relevant(all_of_one: Texts) -> Texts:
        return {name: text for name, text in all_of_one.items() if name in changed or f"{name}.".startswith(prefixes)}

    return pairs([relevant(old) for old in before], relevant({name: new[name] for new in after for name in new}), said)


def _pair(name: str, before: Sequence[Texts], after: Texts) -> str:
    value = after.get(name)
    now = f"-{name}" if value is None else f"{name}={value}" if value else name
    olds = was(old.get(name, "") for old in before)
    return f"{now} ({olds})" if olds else now


def was(olds: Iterable[str]) -> str:
    """Describe the old values of one or many projects: ``was 20``, ``was 20, 1, 7, …``; empty texts are left out."""
    counted = [value for value, _ in Counter(olds).most_common() if value]
    shown = counted[:OLD_VALUES_MOST] + ["…"] * (len(counted) > OLD_VALUES_MOST)
    return f"was {', '.join(shown)}" if shown else ""


def value_text(value: Setting) -> str:
    """Format a value that is not a table, such as ``5`` for 5.0; an ambiguous text gets quotes."""
    if isinstance(value, list | tuple):
        text = ",".join(value_text(part) for part in value)
    elif isinstance(value, float):
        text = str(value).removesuffix(".0")
    elif isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "=(),'):
        text = value
    else:
        text = shown(value)
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"


def _flat(name: str, value: Setting) -> Iterator[tuple[str, str]]:
    if value is None or value == {}:
        return
    if not isinstance(value, dict):
        yield name, value_text(value)
    elif name in HIDDEN:
        yield from ((f"{name}.{key}", "") for key in value)
    else:
        for key, part in value.items():
            is_hidden = key in HIDDEN_FIELDS and name.startswith("cron.")
            yield from [(f"{name}.{key}", "")] if is_hidden else _flat(f"{name}.{key}", part)
