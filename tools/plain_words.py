"""Report words that plain English avoids: ``python -m tools.plain_words [PATH]...``, exit status 1 if there are any.

A docstring is read alone in a listing of names, so it begins with a noun or an imperative verb; actors have names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ("taskqueue", "tests", "benchmarks", "examples", "tools")

OPENINGS: Final = re.compile(r"(Of|That|Those|Its|What|It|Who)\b|One\b(?! \w+ (per|of)\b)(?! (per|of)\b)")
"""First words of a docstring that point at a name above, or at nothing."""

WORDS: Final = re.compile(r"\b(nobody|somebody|whoever|so many|(it|this|that|which) is no)\b", re.IGNORECASE)
"""Words that hide an actor or a number."""

ALLOWED: Final[dict[str, str]] = {
    "tests/postgres.py": "nobody is a user of the system",
    "tools/plain_words.py": "the table of these words",
}
"""Files that may use them, each with its reason; at most 30."""


def openings(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings with a bad first word, those of attributes included: line number and text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = node.value.value.strip()
            if OPENINGS.match(text):
                yield node.lineno, text.partition("\n")[0]


def words(source: str) -> Iterator[tuple[int, str]]:
    """Yield lines with a bad word: line number and text."""
    return ((number, line.strip()) for number, line in enumerate(source.splitlines(), 1) if WORDS.search(line))


def findings(path: Path) -> list[str]:
    """List findings of a file, in the order of its lines."""
    source = path.read_text()
    found = {*words(source), *(openings(source) if path.suffix == ".py" else ())}
    return [f"{path.relative_to(ROOT)}:{number}: {text}" for number, text in sorted(found)]


def main() -> None:
    """Print all findings; exit with 1 if there are any."""
    paths = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT / each for each in SOURCES]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    found = [each for file in files if str(file.relative_to(ROOT)) not in ALLOWED for each in findings(file)]
    print("\n".join(found))
    sys.exit(f"{len(found)} places are hard to read; CONTRIBUTING.md says how to write them" if found else 0)


if __name__ == "__main__":
    main()
