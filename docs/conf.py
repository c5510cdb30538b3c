"""How Sphinx makes the site of these documents: ``make docs`` writes it to build/docs and fails on any warning.

docs/**.md ──fill──► Markdown ──parse──► links ──into the repository──► HTML, search index
              │ <!-- made: NAME --> becomes a table or a page of tools/reference.py
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.search.en import SearchEnglish
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tools import reference  # noqa: E402

SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
REPOSITORY = os.environ.get("TASKQUEUE_REPOSITORY", "").rstrip("/")

project = "taskqueue"
author = SETUP["metadata"]["author"]
release = version = SETUP["metadata"]["version"]
copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
# Options begin with two hyphens, and texts of JSON with straight quotes.
smartquotes = False
templates_path: list[str] = []

# The anchors of headings are those that forges make.
myst_heading_anchors = 6

# Docstrings have Google's sections, and code between single backticks.
default_role = "code"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Options", "params_style")]
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
add_module_names = False
python_use_unqualified_type_names = True
# Annotations name types that only a type checker imports, and names of fields are those of many types.
nitpick_ignore_regex = [("py:.*", ".*")]
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = f"taskqueue {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["numbers.js"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False


class SearchWithNumbers(SearchEnglish):
    """English words, and numbers such as 429; static/numbers.js has the other half."""

    def word_filter(self, word: str) -> bool:
        """Return True if the word belongs into the index."""
        return super().word_filter(word) or (word.isdigit() and 2 <= len(word) <= 5)


class Outside(SphinxTransform):
    """Links to files of the repository that are no documents lead to its address, or become text without one."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        """Fold the tests of rules away, then turn every other link."""
        for cell in [cell for cell in self.document.findall(nodes.entry) if _has_only_tests(cell)]:
            _fold(cell, self.env.docname)
        for link in [link for link in self.document.findall(_is_link) if _path(link, self.env.docname) is not None]:
            link.parent.replace(link, _turned(link, self.env.docname))


class Dashes(SphinxTransform):
    """Two hyphens between a parameter and its description are a dash, although smart quotes are off."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        """Replace them."""
        for text in [text for text in self.document.findall(nodes.Text) if text == " -- "]:
            text.parent.replace(text, nodes.Text(" – "))


def _is_link(node: nodes.Node) -> bool:
    return isinstance(node, addnodes.download_reference | addnodes.pending_xref)


def _path(node: nodes.Element, docname: str) -> str | None:
    """Path of a link in the repository, if it leads out of the documents."""
    target = node["reftarget"]
    if isinstance(node, addnodes.download_reference):
        return posixpath.normpath(posixpath.join("docs", posixpath.dirname(docname), target))
    if node.get("refdomain") != "doc" or not target.startswith(("/", "../")):
        return None
    return f"{(ROOT / 'docs' / target).resolve().relative_to(ROOT)}.md"


def _turned(node: nodes.Element, docname: str) -> nodes.Element:
    path, heading = _path(node, docname), node.get("reftargetid") or ""
    if path is None or not (ROOT / path).exists():
        raise ExtensionError(f"docs/{docname}.md: {path} doesn't exist")
    if heading and heading not in reference.headings((ROOT / path).read_text(encoding="utf-8")):
        raise ExtensionError(f"docs/{docname}.md: {path} has no heading {heading}")
    if REPOSITORY:
        place = f"{REPOSITORY}/blob/main/{path}" + (f"#{heading}" if heading else "")
        return nodes.reference("", "", *node.children, refuri=place)
    return nodes.inline("", "", *node.children)


def _has_only_tests(cell: nodes.Element) -> bool:
    return set(cell.astext()) <= set("✓ ") and any(cell.findall(_is_link))


def _fold(cell: nodes.Element, docname: str) -> None:
    """Show the mark of a rule; its tests are listed when the mark is opened."""
    tests = nodes.bullet_list()
    for link in list(cell.findall(_is_link)):
        turned = _turned(link, docname)
        # MyST before 5.1 names the title otherwise.
        turned.children = [nodes.literal(text=link.get("reftitle") or link["title"])]
        turned.setup_child(turned.children[0])
        tests += nodes.list_item("", nodes.paragraph("", "", turned))
    cell.children = []
    cell += nodes.raw("", '<details class="tests"><summary title="Tests of this rule">✓</summary>', format="html")
    cell += tests
    cell += nodes.raw("", "</details>", format="html")


def _fill(app: Sphinx, docname: str, content: list[str]) -> None:
    content[0] = reference.fill(content[0])


def _trim_literals(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Take away spaces at the edges of literals, which are none to reStructuredText."""
    lines[:] = [re.sub(r"``\s*([^`]+?)\s*``", r"``\1``", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Have generated parts filled in and links turned."""
    reference.name_namespaces()
    app.add_lexer("hex", TextLexer)
    app.add_search_language(SearchWithNumbers)
    app.add_transform(Outside)
    app.add_transform(Dashes)
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _trim_literals)
