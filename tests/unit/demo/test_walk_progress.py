"""What is shown while the links in a folder are followed."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from taskqueue.demo.folder_site import FolderSite
from taskqueue.demo.walk_progress import show_walk


def shown(moments: list[float], *, is_terminal: bool) -> str:
    """Of a folder of which a page is read at each of these moments; the first one is the beginning."""
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=is_terminal, color_system=None, legacy_windows=False)
    with show_walk(console, Path("my [pages]"), iter(moments).__next__) as tell:
        for read in range(1, len(moments)):
            tell(1000 * read, 7)
    return file.getvalue()


def test_elsewhere_there_is_a_line_a_second() -> None:
    assert shown([5.0, 5.5, 6.0, 6.9, 7.2], is_terminal=False).splitlines() == [
        "Following the links in my [pages] ...",
        "   1.0 s  2,000 pages read, 7 to go",
        "   2.2 s  4,000 pages read, 7 to go",
    ]


def test_a_terminal_sees_how_far_it_is() -> None:
    assert "Following the links in my [pages] ... 1,000 pages read, 7 to go" in shown([0.0, 0.0], is_terminal=True)


def test_each_page_that_is_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="a.html"><a href="b.html">')
    (tmp_path / "a.html").write_text('<a href="index.html">')
    (tmp_path / "b.html").write_text("")
    told: list[tuple[int, int]] = []

    pages = FolderSite(tmp_path).expected(lambda read, waiting: told.append((read, waiting)))

    assert len(pages) == 4
    assert told == [(1, 2), (2, 1), (3, 1), (4, 0)]
