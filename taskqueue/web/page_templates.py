"""HTML from templates: every value put into them is escaped, and made visible.

A crawled URL becomes a link only through ``outward``, with the macro of ``links.html``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from taskqueue.display.projects import took_text
from taskqueue.texts.units import duration_text, size_text
from taskqueue.texts.visible_text import visible, visible_lines
from taskqueue.this_process import build_kind
from taskqueue.web.access.visitors import root_of, visitor_of
from taskqueue.web.addresses import segment

PLACES: Final = (
    ("/", "Projects"),
    ("/flows", "Flows"),
    ("/failures", "Failures"),
    ("/operations", "Operations"),
    ("/fetchers", "Fetchers"),
    ("/log", "Log"),
    ("/daemon", "Daemon"),
)
"""Pages in the navigation of every page."""

OF_ALL: Final = ("/daemon",)
"""Pages that only users with all projects see."""

_OUTWARD: Final = re.compile(r"https?://[^\s\\\"'<>`]{1,8192}", re.IGNORECASE)


def make_environment() -> Environment:
    """Make the environment of the package's templates, each read when first used."""
    environment = Environment(
        loader=PackageLoader("taskqueue.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=_count, duration=duration_text, size=size_text, segment=segment, took=took_text)
    environment.filters.update(build_kind=build_kind, visible=visible, visible_lines=visible_lines, outward=outward)
    environment.globals.update(places=PLACES, of_all=OF_ALL, link=link)
    return environment


class Templates:
    """Templates of all pages."""

    def __init__(self) -> None:
        self._environment = make_environment()

    def page(self, request: Request, name: str, context: Mapping[str, Any], status: int = 200) -> HTMLResponse:
        """Render a page."""
        shown = {"visitor": visitor_of(request), "root": root_of(request), "path": request.scope["path"], **context}
        return HTMLResponse(self._environment.get_template(name).render(shown), status)

    def blocks(self, name: str, context: Mapping[str, Any], wanted: tuple[str, ...]) -> dict[str, str]:
        """Render blocks of a page, by name."""
        template = self._environment.get_template(name)
        return {block: "".join(template.blocks[block](template.new_context(dict(context)))) for block in wanted}


def link(path: str, chosen: Mapping[str, object], **more: object) -> str:
    """Return a path with a query; values of 0 and empty ones are left out."""
    query = urlencode({name: value for name, value in {**chosen, **more}.items() if value})
    return f"{path}?{query}" if query else path


def outward(url: str) -> str:
    """Return the URL if it may be a link, else "": a browser would run ``javascript:`` and ``data:``."""
    return url if _OUTWARD.fullmatch(url) and url.isprintable() else ""


def _shown(value: object) -> object:
    """Finalize every ``{{ }}``: a foreign text can't hide or reverse anything."""
    return visible_lines(value) if type(value) is str else value


def _count(number: float) -> str:
    return f"{number:,.0f}"
