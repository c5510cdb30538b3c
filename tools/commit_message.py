"""Check a commit message: its subject is ``area: imperative`` of at most 60 characters, and it has a body."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

SUBJECT: Final = re.compile(r"(?=.{1,60}$)[a-z][a-z0-9._/-]*: [a-z].*|(Revert|Merge|fixup!|squash!) .*")


def problem(message: str) -> str:
    """Return what is wrong with a message; empty if nothing is."""
    subject, _, body = re.sub("^#.*\n?", "", message, flags=re.M).partition("\n")
    if not SUBJECT.fullmatch(subject):
        return f'the subject "{subject}" is not "area: imperative" of at most 60 characters'
    return "" if body.strip() else "there is no body; it says what was before, what is now, and what that costs"


if __name__ == "__main__":
    if why := problem(Path(sys.argv[1]).read_text()):
        sys.exit(f"commit message: {why}")
