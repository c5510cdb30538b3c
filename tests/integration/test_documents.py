"""Blocks of README.md and of the documents do what they say: every one is run, or says why it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.integration.documents import DOCUMENTS, ROOT, Page, blocks_of, complaints

NAMES: Final = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
RUN: Final = [name for name in NAMES if any(block.is_run for block in blocks_of((ROOT / name).read_text()))]

pytestmark = pytest.mark.timeout(900, func_only=True)
"""A block has its own limit, which names its line."""


@pytest.mark.parametrize("name", NAMES)
def test_each_block_says_its_language_and_is_run_or_says_why_not(name: str) -> None:
    assert complaints((ROOT / name).read_text()) == []


@pytest.mark.parametrize("name", RUN)
def test_the_blocks_of_a_document_do_what_it_says(name: str, tmp_path: Path) -> None:
    with Page(name, (ROOT / name).read_text(), tmp_path) as page:
        page.run()


PAGE: Final = """
<!-- file: site/hello.py -->
```python
from taskqueue import Drop


def fetch(task):
    raise Drop("GREETING of http://127.0.0.1:8000")
```

```sh
cd site
export WHOM=reader
taskqueue project set news rate=inf
```

```python
import os

import hello
from taskqueue import Client

with Client() as client:
    print(client.push("news", "http://127.0.0.1:8000/about"), "for", os.environ["WHOM"])
```

<!-- output -->
```text
new … reader
```

<!-- background -->
```sh
taskqueue work hello:fetch news --summary 1s
```

<!-- output -->
```text
… event=connected …
… drop=1 …
```

```sh
taskqueue task show news http://127.0.0.1:8000/about
```

<!-- output: soon -->
```text
… GREETING of http://127.0.0.1:8000
```

<!-- not run: it is an example -->
```sh
exit 3
```

<!-- fails: 2 -->
```sh
taskqueue push
```
"""


def test_blocks_share_a_terminal_a_daemon_and_their_files(tmp_path: Path) -> None:
    with Page("page.md", PAGE, tmp_path) as page:
        page.run()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```sh\nfalse\necho on\n```\n", "page.md:1: ended with 1"),
        ("<!-- fails: 2 -->\n```sh\nexit 3\n```\n", "page.md:2: ended with 3"),
        ("```python\nraise KeyError\n```\n", "page.md:1: ended with 1"),
        ("```sh\necho a b\n```\n\n<!-- output -->\n```text\na c\n```\n", "page.md:1: does not print line 6"),
        (
            "<!-- background -->\n```sh\necho a\n```\n\n<!-- output -->\n```text\nb\n```\n",
            "page.md:2: ended with 0, and does not print line 7",
        ),
        ("<!-- background -->\n```sh\ntrue # 8000\n```\n", "page.md:2: ended with 0, and nothing listens at port 8000"),
    ],
)
def test_a_block_that_does_something_else_is_noticed(text: str, problem: str, tmp_path: Path) -> None:
    with Page("page.md", text, tmp_path) as page, pytest.raises(AssertionError, match=problem):
        page.run()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Text.\n\n    taskqueue status\n", "line 3: an indented block; fence it, and name its language"),
        ("```\nx\n```\n", "line 1: language: expected one of python, sh, "),
        ("<!-- not run -->\n```sh\nx\n```\n", "line 2: not run: says nothing"),
        ("<!-- background -->\n\n```sh\nx\n```\n", "line 1: unknown mark, or not on the line before a block: "),
    ],
)
def test_a_block_without_language_or_reason_is_noticed(text: str, complaint: str) -> None:
    [found] = complaints(text)

    assert found.startswith(complaint)
