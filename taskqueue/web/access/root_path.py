"""The path below which a reverse proxy shows the pages, such as /taskqueue.

It stands before every address that leaves this process. Requests may come with it, from a proxy that passes them on
as they are, or without it, from one that has stripped it:

    browser ──/taskqueue/flows──► proxy ──/taskqueue/flows──► below ──/flows──► the application
                                    └──────────/flows──────────►┘
"""

from __future__ import annotations

import re
from typing import Final

from starlette.types import Scope

MAX_CHARS: Final = 255

WORDS: Final = 'letters, digits and "-._~" between slashes, such as /taskqueue, and no name of a page of ours'
"""What it has to be."""

OWN: Final = (
    "api", "daemon", "failures", "fetchers", "flows", "healthz", "live", "log", "login", "logout", "metrics",
    "operations", "projects", "readyz", "static",
)  # fmt: skip
"""First segments of addresses of ours: with one of them nobody could tell whether a proxy has stripped it."""

_ROOT_PATH: Final = re.compile(rf"(?!/(?:{'|'.join(OWN)})(?:/|\Z))(?:/(?!\.{{1,2}}(?:/|\Z))[A-Za-z0-9._~-]+)*\Z")


def root_path_of(written: str) -> str | None:
    """Read a path, with or without a slash at its end; None if it is unsafe or ambiguous, "" if it is only a slash."""
    path = written.removesuffix("/")
    return path if len(path) <= MAX_CHARS and _ROOT_PATH.match(path) else None


def below(scope: Scope, root: str) -> Scope:
    """Take the root path off the address of a request, if it has it."""
    raw: bytes = scope["raw_path"]
    prefix = root.encode()
    if not root or (raw != prefix and not raw.startswith(prefix + b"/")):
        return scope
    return {**scope, "path": scope["path"][len(root) :] or "/", "raw_path": raw[len(prefix) :] or b"/"}
