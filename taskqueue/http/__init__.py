"""``taskqueue.http``: fetches the page of a task, bounded in bytes and time; ``Http`` blocks, ``AsyncHttp`` is async.

    task ──► request ──► status, headers ──► bytes, decoded ──► Page
                │               │                 └── too many ──► Drop
                │               └── 4xx ──► Drop; 429, 5xx ──► Retry
                └── no answer, or not in time ──► Retry

Here may live what fetches pages for handlers; it is above the client, which fetches nothing and needs no library for
it. ``answer.py`` decides about an answer, and reads no socket. ``Http`` needs urllib3, which comes with taskqueue,
``AsyncHttp`` needs httpx: each is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskqueue.http.answer import Page
    from taskqueue.http.asynchronous import AsyncHttp
    from taskqueue.http.blocking import Http

__all__ = ["AsyncHttp", "Http", "Page"]

_HOMES = {"AsyncHttp": "asynchronous", "Http": "blocking", "Page": "answer"}


def __getattr__(name: str) -> object:
    """Return the public name from its module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
