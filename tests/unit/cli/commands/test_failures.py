"""Failures as a table for readers."""

from __future__ import annotations

import time

import pytest
from freezegun import freeze_time
from rich.console import Console

from taskqueue.cli.commands.failures import of_failures
from taskqueue.protocol.choices import FailuresBy
from taskqueue.protocol.insight import FailureGroup, FailuresReply

NOW = 1.7e9


def shown(by: FailuresBy, *groups: FailureGroup, width: int = 80) -> list[str]:
    reply = FailuresReply(n=1, since=0.0, failures=sum(each.failures for each in groups), count=9, groups=list(groups))
    console = Console(width=width)
    with console.capture() as captured:
        console.print(of_failures(reply, by))
    return [line.rstrip() for line in captured.get().splitlines()]


def group(name: str, failures: int = 1, **fields: str) -> FailureGroup:
    return FailureGroup(name, failures, NOW - 60, NOW - 5, "news", "t1", **fields)


@pytest.fixture(autouse=True)
def now() -> object:
    with freeze_time(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW))) as frozen:
        yield frozen


def test_errors_come_with_the_project_and_the_host_of_the_last_one() -> None:
    lines = shown("error", group("HTTP 503", 1203, host="a.org"), group("timeout", host="b.org"))

    assert lines[0].split() == ["failures", "share", "error", "last", "such", "as"]
    assert lines[1].endswith("news a.org")
    assert lines[1].split()[:4] == ["1,203", "100%", "HTTP", "503"]
    assert lines[2].split()[:2] == ["1", "<1%"]
    assert "5 s ago" in lines[1]


def test_hosts_come_with_the_error_of_the_last_one() -> None:
    assert shown("host", group("a.org", error="HTTP 503"))[1].split()[-2:] == ["HTTP", "503"]


def test_what_has_no_name_is_told() -> None:
    assert "(no reason given)" in shown("error", group(""))[1]
    assert "(no host)" in shown("host", group("", error="x"))[1]
    assert "(no reason given)" in shown("host", group("a.org"))[1]


def test_a_long_error_is_broken_and_fits_into_80_columns() -> None:
    lines = shown("error", group("very long " * 16, host="a-rather-long-name-of-a-host.example.com"))

    assert max(map(len, lines)) <= 80
