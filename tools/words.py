"""Count words that are written by hand: ``python -m tools.words`` prints them by document, most first, and in all.

Counted are README.md, CONTRIBUTING.md and docs/, with tables and code. Not counted are the rules, which are tied to
tests one by one, decisions, which stay as they were made, the changelog, and everything generated: pages that a script
writes, and parts between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
MOST: Final = 45_000
"""Words that a reader may be asked to find the way through."""
NOT_COUNTED: Final = ("docs/reference/rules.md", "docs/reference/messages.md", "docs/why/decisions/")
"""Rules, pages that a script writes, and decisions."""
GENERATED: Final = re.compile(r"<!-- table: .*?<!-- end -->|<!-- .*? -->", re.DOTALL)
CODE: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def by_hand() -> dict[str, str]:
    """Text of each document that is written by hand, by its path."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {name: GENERATED.sub("", text) for name, text in texts.items() if not name.startswith(NOT_COUNTED)}


def words(text: str) -> int:
    """Words of a text: what stands between spaces and has a letter or a digit."""
    return sum(any(map(str.isalnum, word)) for word in text.split())


def main() -> None:
    """Print the table."""
    texts = by_hand()
    for name, count in sorted(((name, words(text)) for name, text in texts.items()), key=lambda row: -row[1]):
        print(f"{count:7,}  {name}")
    print(f"{sum(map(words, texts.values())):7,}  in all, of at most {MOST:,}")
    print(f"{sum(words(CODE.sub('', text)) for text in texts.values()):7,}  of them outside fenced blocks")


if __name__ == "__main__":
    main()
