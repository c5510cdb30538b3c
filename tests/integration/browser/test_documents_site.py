"""The site of the documents, as ``make docs`` makes it: nothing is broken, and a search finds what users look for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.integration.browser.conftest import WAIT_MS

ROOT: Final = Path(__file__).parents[3]
ADDRESS: Final = "http://documents.invalid"
FIRST_PAGE: Final = 10
"""Results that a reader sees without scrolling far."""

pytestmark = pytest.mark.skipif(find_spec("sphinx") is None, reason="needs the extra docs, which make test installs")


Built = tuple[Path, "subprocess.CompletedProcess[str]"]
"""Folder of the site, and how Sphinx ended."""


def make_docs(
    root: Path, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Make the site of a tree in a folder, as ``make docs`` does."""
    found = re.search(r"^SPHINX := \$\(BIN\)/python (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    options = found[1].replace("build/doctrees", str(folder / "doctrees")).split()
    command = [sys.executable, *options, str(root / "docs"), str(folder / "html")]
    variables = os.environ | (environment or {})
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=variables)


def small_site(folder: Path, index: str) -> subprocess.CompletedProcess[str]:
    """Make a site of one page, of a tree that has an address."""
    for name in ("docs/conf.py", "docs/static", "tools"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / name)
    (folder / "docs" / "index.md").write_text(index)
    shutil.copy(ROOT / "setup.cfg", folder)
    return make_docs(folder, folder, {"TASKQUEUE_REPOSITORY": "https://forge.example/a/b"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("documents")
    return folder / "html", make_docs(ROOT, folder)


@pytest.fixture(scope="module")
def search(browser: Browser, built: Built) -> Iterator[Page]:
    """A window in which the site answers, without a server."""

    def answer(route: Route) -> None:
        route.fulfill(path=built[0] / route.request.url.removeprefix(f"{ADDRESS}/").partition("?")[0])

    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    context.route(f"{ADDRESS}/**", answer)
    yield context.new_page()
    context.close()


def results(page: Page, word: str) -> list[str]:
    """Addresses that a search finds, best first."""
    page.goto(f"{ADDRESS}/search.html?q={word}")
    page.locator(".search-summary", has_text=re.compile("found|did not match")).wait_for()
    return [str(link.get_attribute("href")) for link in page.locator("ul.search li > a").all()]


def test_the_documents_become_a_site_without_a_warning(built: Built) -> None:
    folder, sphinx = built

    assert (sphinx.returncode, sphinx.stderr, sphinx.stdout) == (0, "", "")
    assert (folder / "index.html").exists()


@pytest.mark.parametrize("word", ["429", "stuck", "undo"])
def test_a_search_finds_the_how_to_on_its_first_page(search: Page, word: str) -> None:
    first = results(search, word)[:FIRST_PAGE]

    assert [address for address in first if "howto/" in address], first


def test_a_search_finds_a_number(search: Page) -> None:
    found = [address.partition("#")[0].partition("?")[0] for address in results(search, "141")]

    assert "reference/errors.html" in found


def test_a_search_for_what_is_nowhere_finds_nothing(search: Page) -> None:
    assert results(search, "54321") == []


def test_the_tests_of_a_rule_are_shown_when_its_mark_is_opened(search: Page) -> None:
    search.goto(f"{ADDRESS}/reference/rules.html")
    proof = search.locator("details.tests").first

    hidden = proof.locator("code").first.is_visible()
    proof.locator("summary").click()

    assert not hidden
    assert proof.locator("code").first.is_visible()
    assert proof.locator("code").first.inner_text().startswith("test_")


def test_links_to_other_files_lead_into_the_repository(tmp_path: Path) -> None:
    (tmp_path / "B.md").write_text("# B\n\n## Is `this` here?\n")
    links = "[this](../setup.cfg) [script](../tools/words.py) [page](../B.md) [part](../B.md#is-this-here) [below](#a)"

    made = small_site(tmp_path, f"# A\n\n{links}\n")

    page = (tmp_path / "html" / "index.html").read_text()
    assert (made.returncode, made.stderr) == (0, "")
    assert 'href="https://forge.example/a/b/blob/main/setup.cfg"' in page
    assert 'href="https://forge.example/a/b/blob/main/tools/words.py"' in page
    assert 'href="https://forge.example/a/b/blob/main/B.md"' in page
    assert 'href="https://forge.example/a/b/blob/main/B.md#is-this-here"' in page
    assert 'href="#a"' in page


@pytest.mark.parametrize("target", ["gone.md", "#gone", "../gone.py", "../gone.md", "../B.md#gone", "gone/"])
def test_a_link_to_nothing_fails(tmp_path: Path, target: str) -> None:
    (tmp_path / "B.md").write_text("# B\n")

    made = small_site(tmp_path, f"# A\n\n[link]({target})\n")

    assert made.returncode != 0
    assert "gone" in made.stderr


def test_what_the_code_lacks_fails(tmp_path: Path) -> None:
    made = small_site(tmp_path, "# A\n\n<!-- made: nothing -->\n")

    assert made.returncode != 0
    assert "nothing" in made.stderr
