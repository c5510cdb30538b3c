"""The check of commit messages."""

from __future__ import annotations

import pytest

from tools.commit_message import problem

BODY = "\n\nBefore: they ran on. Cost: none.\n"


@pytest.mark.parametrize(
    "message",
    [
        f"worker: stop handlers whose lease is over{BODY}",
        f"store: read what was kept{BODY}# Please enter the commit message\n",
        "# a template\nmake: build once\n\nIt was built twice.\n",
        'Revert "worker: stop handlers"\n\nThis reverts commit 1.\n',
    ],
)
def test_a_message_that_says_where_and_what_and_why_is_taken(message: str) -> None:
    assert problem(message) == ""


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (f"Handlers are stopped{BODY}", 'the subject "Handlers are stopped" is not "area: imperative"'),
        (f"worker: {'x' * 53}{BODY}", "of at most 60 characters"),
        (f"worker: Stop handlers{BODY}", "is not"),
        (f"core, store: read what was kept{BODY}", "is not"),
        ("worker: stop handlers\n\n# a comment\n", "there is no body"),
        ("", "the subject"),
    ],
)
def test_any_other_is_refused_with_what_is_wrong(message: str, complaint: str) -> None:
    assert complaint in problem(message)
