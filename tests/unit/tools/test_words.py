"""The count of words by hand."""

from __future__ import annotations

import pytest

from tools import words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One, two — three.", 3),
        ("| a | `b` |\n|---|---|\n| 1 | x |\n", 4),
        ("Before.\n<!-- table: figures -->\n| a | b |\n<!-- end -->\nAfter.", 2),
        ("<!-- not run: it needs a database -->\n```sh\ntaskqueue status\n```\n", 3),
        ("<!-- made: settings -->", 0),
    ],
)
def test_what_is_made_or_is_no_word_is_not_counted(text: str, count: int) -> None:
    assert words.words(words.GENERATED.sub("", text)) == count


def test_rules_decisions_and_the_changelog_are_not_counted() -> None:
    names = words.by_hand().keys()

    assert {"README.md", "CONTRIBUTING.md", "docs/index.md", "docs/reference/http.md"} <= names
    assert not [name for name in names if "rules" in name or "decisions" in name or "CHANGELOG" in name]


def test_documents_by_hand_stay_within_their_words() -> None:
    assert sum(map(words.words, words.by_hand().values())) <= words.MOST
