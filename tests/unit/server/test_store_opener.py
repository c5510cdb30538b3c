"""The store that settings name, and a store that this process has used and that is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from taskqueue.errors import ConfigError, Damaged
from taskqueue.server.config import Config
from taskqueue.server.meters import Meters
from taskqueue.server.store_opener import StoreOpener, database_target


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgresql:///crawl", "postgresql:///crawl schema said"),
        ("postgresql:///crawl?schema=news", "postgresql:///crawl schema news"),
        ("postgresql:///crawl?host=/run/db&schema=news", "postgresql:///run/db/crawl schema news"),
        ("postgresql:///crawl?schema=news_2&host=/run/db", "postgresql:///run/db/crawl schema news_2"),
        ("postgresql://me:what?@db.example/crawl?schema=news", "postgresql://db.example/crawl schema news"),
    ],
)
def test_the_schema_that_a_url_names_wins_over_the_setting(url: str, where: str) -> None:
    assert database_target(url, "said", 10.0).where == where


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("schema=News", 'store.url: schema must be a name of a to z, 0 to 9 and "_", such as "taskqueue", not "News"'),
        ("schema=", 'store.url: schema must be a name of a to z, 0 to 9 and "_", such as "taskqueue", not ""'),
        ("schema=a&schema=b", "store.url: it names a schema more than once"),
        ("schemas=a", 'store.url: invalid URI query parameter: "schemas"'),
    ],
)
def test_a_url_whose_schema_is_no_name_is_a_mistake_in_the_config(query: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        database_target(f"postgresql:///crawl?{query}", "said", 10.0)

    assert str(error.value) == said


def test_a_folder_that_is_gone_is_not_made_anew_by_the_process_that_had_its_store(tmp_path: Path) -> None:
    config = msgspec.convert({"store": {"path": str(tmp_path / "store")}}, Config)
    opener = StoreOpener(False, Meters())
    opener.probe(config)
    opener.open(config).close()
    opener.probe(config)
    shutil.rmtree(tmp_path / "store")

    for use in (opener.probe, opener.open):
        with pytest.raises(Damaged, match="the store is gone: "):
            use(config)
    assert not (tmp_path / "store").exists()


def test_a_folder_that_is_gone_is_not_made_anew_by_a_later_process_until_the_operator_says_so(tmp_path: Path) -> None:
    config = msgspec.convert({"store": {"path": str(tmp_path / "store")}}, Config)
    opener = StoreOpener(False, Meters())
    opener.open(config).close()
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(Damaged):
        opener.probe(config)

    with pytest.raises(Damaged, match=r"remove .*/store\.gone to begin with an empty store"):
        StoreOpener(False, Meters()).open(config)
    (tmp_path / "store.gone").unlink()
    StoreOpener(False, Meters()).open(config).close()


def test_a_store_that_is_back_is_opened(tmp_path: Path) -> None:
    config = msgspec.convert({"store": {"path": str(tmp_path / "store")}}, Config)
    opener = StoreOpener(False, Meters())
    opener.open(config).close()
    (tmp_path / "store").rename(tmp_path / "aside")
    with pytest.raises(Damaged):
        opener.probe(config)
    (tmp_path / "aside").rename(tmp_path / "store")

    StoreOpener(False, Meters()).open(config).close()
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_a_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    opener = StoreOpener(False, Meters())

    opener.probe(msgspec.convert({"store": {"path": str(tmp_path)}}, Config))

    assert list(tmp_path.iterdir()) == []
