"""A folder of HTML pages as a site.

``/a/b.html`` is the file a/b.html below the folder, ``/a/`` is a/index.html, ``/a`` of a folder redirects to ``/a/``.
Nothing above the folder is ever served. The expected pages are those that links reach from ``/``; links into nowhere
are expected as 404s.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from taskqueue.demo.links import leads_to
from taskqueue.demo.page import Page, Progress, Site, no_progress, not_found

ANYWHERE = "http://folder"
"""Base of urls while nothing is served yet."""


class FolderSite:
    """A site made of HTML files.

    Args:
        root: an existing folder with an index.html.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reached: dict[str, int] = {}

    def page(self, target: str) -> Page:
        try:
            return self._found(target)
        except (OSError, ValueError):
            return not_found(target)

    def _found(self, target: str) -> Page:
        path = urlsplit(target).path
        file = self._file(path)
        if not file.is_dir():
            return _file_page(file)
        return _file_page(file / "index.html") if path.endswith("/") else Page(301, location=f"{path}/")

    def _file(self, path: str) -> Path:
        """The file of a path.

        Raises:
            FileNotFoundError: there is none inside of the root.
        """
        parts = PurePosixPath(unquote(path).lstrip("/")).parts
        if ".." in parts:
            raise ValueError(path)
        return self._root.joinpath(*parts)

    def expected(self, progress: Progress = no_progress) -> Mapping[str, int]:
        self._reached = self._reached or walk(self, progress)
        return self._reached


def _file_page(file: Path) -> Page:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Page(200, file.read_bytes(), f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)


def walk(site: Site, progress: Progress = no_progress) -> dict[str, int]:
    """Status by target of every page reachable from ``/``; reports progress after each."""
    found = {"/": 0}
    waiting = ["/"]
    while waiting:
        target = waiting.pop()
        page = site.page(target)
        found[target] = page.status
        for url in leads_to(page, ANYWHERE + target):
            if (next_target := url.removeprefix(ANYWHERE)) not in found:
                found[next_target] = 0
                waiting.append(next_target)
        progress(len(found) - len(waiting), len(waiting))
    return found
