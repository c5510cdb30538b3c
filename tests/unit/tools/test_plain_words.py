"""The lint of plain words."""

from __future__ import annotations

import pytest

from tools import plain_words


@pytest.mark.parametrize(
    "docstring",
    [
        "Of a page.",
        "That of the current epoch.",
        "What the file says.",
        "It lasts for ever.",
        "One that is left.",
        "Who asks.",
        "Watches a file.",
    ],
)
def test_a_docstring_that_needs_the_name_above_is_found(docstring: str) -> None:
    source = f'def take() -> None:\n    """{docstring}"""\n'

    assert list(plain_words.openings(source)) == [(2, docstring)]


@pytest.mark.parametrize("docstring", ["Rows per page.", "One row per task.", "Whether the task may run."])
def test_a_docstring_that_can_be_read_alone_is_not(docstring: str) -> None:
    assert not list(plain_words.openings(f'rows = 1\n"""{docstring}"""\n'))


@pytest.mark.parametrize("line", ["# nobody waits", "Whoever asks", "there are so many", "which is no task"])
def test_a_line_that_hides_an_actor_or_a_number_is_found(line: str) -> None:
    assert list(plain_words.words(f"first\n{line}")) == [(2, line)]
