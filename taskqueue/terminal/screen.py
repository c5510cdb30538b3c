"""Rich console and text for tables and live displays, which never pass on escape sequences of foreign text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.text
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style

from taskqueue.texts.visible_text import visible, visible_lines

WIDE = 400
"""Columns of output that is not a terminal."""


class Text(rich.text.Text):
    """Text of one line (unless parts are joined) with control characters made visible."""

    def __init__(self, text: str = "", style: str | Style = "", **options: Any) -> None:
        super().__init__(visible(text), style, **options)

    def append(self, text: rich.text.Text | str, style: str | Style | None = None) -> Text:
        """Append a part; its line ends stay."""
        super().append(visible_lines(text) if isinstance(text, str) else text, style)
        return self


class Screen(Console):
    """Console on stdout or stderr; if that is not a terminal, wide enough to cut nothing.

    Text that is not a ``Text`` is made visible, too, but after the layout: a column may then be too narrow for it.
    Brackets and colons have no meaning.
    """

    def __init__(self, *, err: bool = False, **options: Any) -> None:
        plain: dict[str, Any] = {"stderr": err, "highlight": False, "markup": False, "emoji": False}
        super().__init__(**plain, **options)
        if not self.is_terminal:
            self.width = WIDE

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments; only control codes that rich itself makes for the terminal are passed on."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable() or text == "\n":
                yield segment
            else:
                yield Segment(visible_lines(text), segment.style)
