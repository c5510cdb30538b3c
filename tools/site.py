"""Make HTML of the documents and of the docstrings of all public names: ``python tools/site.py FOLDER``.

    README.md           index.html
    docs/reference/protocol.md    docs/protocol.html
    taskqueue.Client    api/taskqueue.html#Client

Pages load nothing from elsewhere. A link to a file that is no document leads into the repository; a link to nothing, or
to a heading that there is not, ends it with exit status 1.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from os.path import relpath
from pathlib import Path
from typing import Final

import pdoc
from markdown_it import MarkdownIt
from markdown_it.token import Token

import taskqueue

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
API: Final = Path("api/taskqueue.html")
PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
nav a {{ margin-right: 1em }}
pre {{ overflow-x: auto; background: #f6f6f6; padding: 1em; line-height: 1.3 }}
table {{ border-collapse: collapse }}
td, th {{ border: 1px solid #ccc; padding: .3em .6em; vertical-align: top; text-align: left }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #111; color: #ddd }} pre {{ background: #222 }}
  a {{ color: #8bf }} td, th {{ border-color: #444 }}
}}
</style>
<nav>{nav}</nav>
{body}
"""

_markdown = MarkdownIt().enable("table")


def slug(heading: str) -> str:
    """The name by which a heading is linked to, as forges make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def page_of(document: Path) -> Path:
    """Where in the site a document is."""
    path = document.relative_to(ROOT)
    return Path("index.html") if path.name == "README.md" else path.with_suffix(".html")


def name_headings(tokens: list[Token]) -> set[str]:
    """Give each heading an id; return these."""
    names = []
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            names.append(slug(inline.content))
            opening.attrSet("id", names[-1])
    return set(names)


def links(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Links and pictures, each with the attribute that says where to."""
    for token in tokens:
        for child in token.children or []:
            if child.type in ("link_open", "image"):
                yield child, "href" if child.type == "link_open" else "src"


def follow(document: Path, target: str, headings: dict[Path, set[str]], site: Path) -> str | None:
    """The link as it is in the site; None: it leads to nothing."""
    if target.startswith(("https://", "http://", "mailto:")):
        return target
    path, _, heading = target.partition("#")
    file = (document.parent / path).resolve() if path else document
    if not file.exists() or (heading and heading not in headings.get(file, set())):
        return None
    here = (site / page_of(document)).parent
    there = site / page_of(file) if file in headings else file
    return Path(relpath(there, here)).as_posix() + (f"#{heading}" if heading else "")


def write_documents(site: Path) -> list[str]:
    """Write all documents; return what is wrong with their links."""
    parsed = {document: _markdown.parse(document.read_text()) for document in DOCUMENTS}
    headings = {document: name_headings(tokens) for document, tokens in parsed.items()}
    broken = []
    for document, tokens in parsed.items():
        for token, attribute in links(tokens):
            target = str(token.attrGet(attribute))
            if (found := follow(document, target, headings, site)) is None:
                broken.append(f"{document.relative_to(ROOT)}: {target} leads to nothing")
            else:
                token.attrSet(attribute, found)
        page = site / page_of(document)
        page.parent.mkdir(parents=True, exist_ok=True)
        places = {each.stem: page_of(each) for each in DOCUMENTS if each.parent.name != "decisions"} | {"API": API}
        nav = "".join(f'<a href="{relpath(site / place, page.parent)}">{name}</a>' for name, place in places.items())
        body = _markdown.renderer.render(tokens, _markdown.options, {})
        page.write_text(PAGE.format(title=escape(document.stem), nav=nav, body=body))
    return broken


def write_api(site: Path) -> list[str]:
    """Write the reference of the public names; return which are not in it, and what leads to nothing."""
    warnings.simplefilter("error")
    # A type that only a type checker imports is shown as it is written.
    warnings.filterwarnings("ignore", "Error parsing type annotation")
    pdoc.render.configure(docformat="google", show_source=False)
    pdoc.pdoc("taskqueue", r"!taskqueue\.", output_directory=site / API.parent)
    text = (site / API).read_text()
    ids = set(re.findall(r'id="([^"]+)"', text))
    missing = [f"taskqueue.{name} is not in the reference" for name in taskqueue.__all__ if name not in ids]
    return missing + [
        f"{API}: #{name} leads to nothing" for name in re.findall(r'href="#([^"]+)"', text) if name not in ids
    ]


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    wrong = write_documents(folder) + write_api(folder)
    print(*wrong, f"{len(DOCUMENTS)} documents and the reference are in {folder}", sep="\n")
    sys.exit(bool(wrong))
