"""Which urls are refused before anything is sent: where somebody means a url, and it can't be one that is fetched.

To the daemon a url is text, and what it means is between a project's producers and its fetchers; so ``new_task`` takes
any. But where a url alone stands for a task (``push``, ``push_many``, what a handler returns, what ``done`` takes), or
a map of ``new_task``'s arguments, it is most likely a link that somebody forgot to look at. It is refused if

1. there is white space around it, such as the end of a line, or a control character in it;
2. it is relative: it begins with ``/``, ``?``, ``#`` or ``.``;
3. it is http or https without a host;
4. its scheme leads to no page: ``NO_PAGES``. ``file`` is among these, because whoever writes a page could have local
   files read with it.

Everything else is taken, with a scheme or without: ``data:,on_start``, ``s3://bucket/key``, ``user-42``. The command
line is stricter, because what stands there was typed or comes from a list: see ``check_typed``.
"""

from __future__ import annotations

import re
from typing import Final

NO_PAGES: Final = frozenset(
    ("about", "blob", "callto", "chrome", "facetime", "file", "geo", "intent", "javascript", "magnet", "mailto", "maps",
     "market", "skype", "sms", "tel", "vbscript", "view-source", "viber", "webcal", "whatsapp", "xmpp")
)  # fmt: skip
"""Schemes of links that stand in pages and are none to pages."""

WEB: Final = ("http", "https")

ORDINARY: Final = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
"""How nearly all urls begin."""

SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
RELATIVE: Final = ("/", "?", "#", ".")


def check_meant(url: object) -> None:
    """See that a url that stands for a task can be one that is fetched; what is no text is not looked at.

    Raises:
        ValueError: it can't, by the rules above.
    """
    if not isinstance(url, str) or (ORDINARY.match(url) and url.isprintable() and url[-1] != " "):
        return
    _check_edges(url)
    if url.startswith(RELATIVE):
        raise ValueError(f"url: {shown(url)} is relative; taskqueue.links and urllib.parse.urljoin make links absolute")
    scheme = scheme_of(url)
    if scheme in WEB and not ORDINARY.match(url):
        raise ValueError(f"url: {shown(url)} has no host")
    if scheme in NO_PAGES:
        remedy = "taskqueue.links leaves such links out, and new_task takes them if they are meant"
        raise ValueError(f"url: {shown(url)} leads to no page; {remedy}")


def check_typed(url: object, *, any_scheme: bool) -> None:
    """See that what stands in a line, or on the command line, is a url: http or https with a host, or ``data:``.

    What is no text, or empty, is left to ``new_task``.

    Args:
        any_scheme: take whatever has a scheme.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(url, str) or not url:
        return
    _check_edges(url)
    if ORDINARY.match(url):
        return
    scheme = scheme_of(url)
    if not scheme:
        raise ValueError(f"{shown(url)} is no url, which begins with a scheme such as https:")
    if any_scheme or scheme == "data":
        return
    if scheme in WEB:
        raise ValueError(f"{shown(url)} has no host")
    raise ValueError(f"{shown(url)} is no url of http, https or data; with --any it is taken")


def _check_edges(url: str) -> None:
    if url != url.strip() or CONTROL.search(url):
        raise ValueError(f"url: {shown(url)} has white space around it or a control character in it")


def scheme_of(url: str) -> str:
    """What stands before the first colon, in lower case, if that can be a scheme; else ""."""
    found = SCHEME.match(url)
    return found[1].lower() if found else ""


def shown(url: str) -> str:
    """The url, quoted, and cut if it is long."""
    return repr(url if len(url) <= 100 else f"{url[:99]}…")
