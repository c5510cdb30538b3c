"""The database that a url names, and the messages about invalid urls."""

from __future__ import annotations

import pytest

from taskqueue.errors import ConfigError
from taskqueue.store.postgres.session import target_of


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://db..example/crawl", "'db..example' can't be the name of a host"),
        ("postgresql://db\x9bm.example/crawl", r"'db\x9bm.example' can't be the name of a host"),
        ("postgresql://one.example,a..b/crawl", "'a..b' can't be the name of a host"),
        ("postgresql://db.example:many/crawl", "the port must be a number from 1 to 65535, not 'many'"),
        ("postgresql://db.example:65536/crawl", "the port must be a number from 1 to 65535, not '65536'"),
        ("postgresql://one.example:1,two.example:0/crawl", "the port must be a number from 1 to 65535, not '0'"),
        ("postgresql://%41%FF/crawl", "percent-encoded bytes must be UTF-8"),
        ("postgresql://db.example/crawl?speed=high", 'invalid URI query parameter: "speed"'),
    ],
)
def test_a_url_that_can_name_no_server_is_a_mistake_in_the_config(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        target_of(url)

    assert str(error.value) == f"store.url: {said}"


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgresql:///crawl", "postgresql:///crawl"),
        ("postgresql:///crawl?host=/run/postgresql", "postgresql:///run/postgresql/crawl"),
        ("postgresql://me:secret@db.example:5433/crawl", "postgresql://db.example:5433/crawl"),
        ("postgresql://one.example,two.example:5433/crawl", "postgresql://one.example,two.example:5433/crawl"),
        ("postgresql://bücher.example/crawl", "postgresql://bücher.example/crawl"),
        ("postgresql://[::1]:5433/crawl", "postgresql://::1:5433/crawl"),
    ],
)
def test_a_url_names_servers_and_a_database_and_its_password_is_not_shown(url: str, where: str) -> None:
    assert target_of(url).where == f"{where} schema taskqueue"
