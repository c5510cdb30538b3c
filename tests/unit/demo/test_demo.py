"""The demo's record of a crawl."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.demo.demo import FILE, Crawl, last_crawl, save
from taskqueue.errors import ConfigError


def test_the_last_crawl_is_remembered(tmp_path: Path) -> None:
    assert last_crawl(tmp_path) is None

    save(tmp_path, Crawl("", 1))
    save(tmp_path, Crawl("/pages", 7480, is_finished=True))

    assert last_crawl(tmp_path) == Crawl("/pages", 7480, is_finished=True)


@pytest.mark.parametrize("text", ["", "nonsense", '{"site": 1}'])
def test_a_file_that_is_none_of_ours_is_named_and_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)

    with pytest.raises(ConfigError, match=rf"crawl\.json: .*remove {tmp_path} to start over"):
        last_crawl(tmp_path)
