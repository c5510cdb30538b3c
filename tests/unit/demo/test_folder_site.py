"""A folder as a site: which pages it has, and that nothing outside is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.demo.folder_site import FolderSite


@pytest.fixture
def folder(tmp_path: Path) -> FolderSite:
    (tmp_path / "secret.html").write_text("outside")
    root = tmp_path / "pages"
    (root / "deep er").mkdir(parents=True)
    (root / "index.html").write_text('<a href="one.html">1</a><a href="deep%20er">d</a><a href="notes.txt">t</a>')
    (root / "one.html").write_text('<a href="index.html">home</a><a href="gone.html">gone</a>')
    (root / "deep er" / "index.html").write_text('<a href="../one.html?utm_source=deep">1</a>')
    (root / "notes.txt").write_text('<a href="never.html">')
    (root / "alone.html").write_text("nobody links here")
    return FolderSite(root)


def test_the_expected_pages_are_those_that_links_reach(folder: FolderSite) -> None:
    assert folder.expected() == {
        "/": 200,
        "/index.html": 200,
        "/one.html": 200,
        "/gone.html": 404,
        "/deep%20er": 301,
        "/deep%20er/": 200,
        "/notes.txt": 200,
    }


def test_the_kind_of_a_file_comes_from_its_name(folder: FolderSite) -> None:
    assert folder.page("/one.html").content_type == "text/html; charset=utf-8"
    assert folder.page("/notes.txt").content_type == "text/plain; charset=utf-8"


OUTSIDE = ["/../secret.html", "/%2e%2e/secret.html", "/a/../../secret.html", "//../secret.html"]


@pytest.mark.parametrize("target", OUTSIDE)
def test_nothing_outside_the_folder_is_served(folder: FolderSite, target: str) -> None:
    assert folder.page(target).status == 404


@pytest.mark.parametrize("target", ["/%00", "/" + "x" * 5000, "/one.html/more", "/none/"])
def test_what_can_not_be_a_file_is_a_404(folder: FolderSite, target: str) -> None:
    assert folder.page(target).status == 404
