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
SOURCES: Final = (
    "README.md", "CONTRIBUTING.md", "benchmarks", "conf", "docs", "examples", "taskqueue", "tests", "tools",
)  # fmt: skip
TEXTS: Final = {".py", ".md", ".html", ".js", ".toml", ".yml"}

OPENINGS: Final = re.compile(
    r"(Of|That|Those|Its|What|It|Who)\b|One\b(?! \w+ (per|of)\b)(?! (per|of)\b)"
    r"|(Asks|Begins|Gives|Identifies|Makes|Returns|Says|Sends|Syncs|Takes|Tells|Watches|Yields)\b"
)
"""First words of a docstring that point at a name above, or at nothing; and verbs that lack their subject."""

WORDS: Final = re.compile(r"\b(nobody|somebody|whoever|so many|(it|this|that|which) is no)\b", re.IGNORECASE)
"""Words that hide an actor or a number."""

ALLOWED: Final[dict[str, str]] = {
    "CONTRIBUTING.md": "names the words",
    "docs/why/decisions/": "say what was decided in the words of their time",
    "tests/postgres.py": "nobody is a user of the system",
    "tests/unit/tools/test_plain_words.py": "examples of these words",
    "tools/plain_words.py": "the table of these words",
}
"""Files and folders that may use them, each with its reason; at most 30."""


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


def files_below(path: Path) -> Iterator[Path]:
    """Yield the files to check: the path itself, or all texts of a folder that are not allowed otherwise."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        name = str(file.relative_to(ROOT))
        if file.suffix in TEXTS and not any(name.startswith(allowed) for allowed in ALLOWED):
            yield file


def main() -> None:
    """Print all findings; exit with 1 if there are any."""
    paths = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT / each for each in SOURCES]
    found = [each for path in paths for file in files_below(path) for each in findings(file)]
    print("\n".join(found) or "plain words: nothing found")
    sys.exit(f"{len(found)} places are hard to read; CONTRIBUTING.md says how to write them" if found else 0)


if __name__ == "__main__":
    main()
