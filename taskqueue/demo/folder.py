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
from taskqueue.demo.page import Page, Site, Tell, not_found, quiet

ANYWHERE = "http://folder"
"""Base of urls while nothing is served yet."""


class Folder:
    """A site of files.

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
        """The file that a path means.

        Raises:
            ValueError: it leads out of the folder.
        """
        parts = PurePosixPath(unquote(path).lstrip("/")).parts
        if ".." in parts:
            raise ValueError(path)
        return self._root.joinpath(*parts)

    def expected(self, tell: Tell = quiet) -> Mapping[str, int]:
        self._reached = self._reached or walk(self, tell)
        return self._reached


def _file_page(file: Path) -> Page:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Page(200, file.read_bytes(), f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)


def walk(site: Site, tell: Tell = quiet) -> dict[str, int]:
    """Status by target of every page that links and redirects reach from ``/``; tells how far it is after each."""
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
        tell(len(found) - len(waiting), len(waiting))
    return found
