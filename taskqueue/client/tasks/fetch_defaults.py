"""What a project's settings say of ``fetch``, laid under what a task says itself.

The daemon sends it beside the tasks, so that a change reaches those that have been queued for long, and bodies stay
unread on the way.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw


def laid_under(own: Any, defaults: Raw) -> Any:
    """A task's ``fetch`` over its project's. Maps that both have are joined one level deep; else the task's own wins.

    What it returns shares nothing with what other tasks get.
    """
    under = _map_of(defaults)
    if not isinstance(own, dict):
        return own
    joined = {**under, **own}
    for key, value in own.items():
        below = under.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            joined[key] = {**below, **value}
    return joined


def _map_of(defaults: Raw) -> dict[Any, Any]:
    """Empty if it is none: what is wrong with a setting must not keep tasks from being run."""
    try:
        value = msgspec.msgpack.decode(defaults)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
