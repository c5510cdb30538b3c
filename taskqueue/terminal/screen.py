"""A rich console and text for tables and live displays, which never pass on escape sequences of foreign text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.text
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style

from taskqueue.visible_text import visible, visible_lines

WIDE = 400
"""Columns where the output is no terminal."""


class Text(rich.text.Text):
    """A text of one line (unless parts are joined) with control characters made visible."""

    def __init__(self, text: str = "", style: str | Style = "", **options: Any) -> None:
        super().__init__(visible(text), style, **options)

    def append(self, text: rich.text.Text | str, style: str | Style | None = None) -> Text:
        """Append a part, whose line ends are kept."""
        super().append(visible_lines(text) if isinstance(text, str) else text, style)
        return self


class Screen(Console):
    """Standard output, or standard error; where that is no terminal, wide enough to cut nothing.

    What is not a ``Text`` is made visible, too, when all has its place already: then a column may be too narrow for it.
    Whatever stands in brackets or between colons is a text like any other.
    """

    def __init__(self, *, err: bool = False, **options: Any) -> None:
        plain: dict[str, Any] = {"stderr": err, "highlight": False, "markup": False, "emoji": False}
        super().__init__(**plain, **options)
        if not self.is_terminal:
            self.width = WIDE

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments; only control codes that rich itself makes for the terminal are passed on."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable() or text == "\n":
                yield segment
            else:
                yield Segment(visible_lines(text), segment.style)
