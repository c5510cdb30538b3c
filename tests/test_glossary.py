"""The glossary and the code use the same words."""

from __future__ import annotations

import re
from pathlib import Path

import taskqueue
from taskqueue import types

ROOT = Path(__file__).parent.parent
ROWS = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", (ROOT / "docs" / "reference" / "glossary.md").read_text(), re.M)
TERMS = {term for words, _ in ROWS for term in words.split(", ")}
DEFINED = TERMS | {word for _, meaning in ROWS for word in re.findall(r"[*`](\w+)[*`]", meaning)}
PLAIN = {"Client", "Histogram", "Page", "Status"}
"""Public names with their everyday meaning."""


def test_each_term_is_used_by_the_code() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "taskqueue").rglob("*.py")).lower()
    stems = {term: re.sub(r"[ -]", "[ _-]?", term.removesuffix("y")) for term in TERMS}

    assert len(TERMS) > 50
    assert not [term for term, stem in stems.items() if not re.search(rf"\b{stem}", code)]


def test_each_public_class_that_is_named_by_one_word_is_a_term() -> None:
    names = {*taskqueue.__all__, *types.__all__} - PLAIN
    words = {name.lower() for name in names if re.fullmatch(r"[A-Z][a-z]+", name)}

    assert len(words) > 20
    assert not [word for word in words if not {word, word.removesuffix("s"), word.removesuffix("ed")} & DEFINED]
