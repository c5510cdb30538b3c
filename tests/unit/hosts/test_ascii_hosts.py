"""A single spelling of a host: the one that the DNS is asked for."""

from __future__ import annotations

import pytest

from taskqueue.hosts.ascii_hosts import ascii_host, with_ascii_host

BOOKS = "xn--bcher-kva.example"


@pytest.mark.parametrize(
    "host",
    [
        "bücher.example", "BÜCHER.EXAMPLE", "bu\u0308cher.example", "b%C3%BCcher.example", "b%c3%bccher。example",
        "ｂücher.example", BOOKS, "XN--BCHER-KVA.example",
    ],
)  # fmt: skip
def test_all_spellings_of_a_host_are_one(host: str) -> None:
    assert ascii_host(host) == BOOKS


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("faß.de", "xn--fa-hia.de"),  # fass.de by the rules of 2003: another registrant's
        ("βόλος.com", "xn--nxasmm1c.com"),
        ("i❤.ws", "xn--i-7iq.ws"),
        ("💩.la", "xn--ls8h.la"),
        ("[2001:0DB8::0:1]", "[2001:db8::1]"),
        ("[::ffff:1.2.3.4]", "[::ffff:102:304]"),
        ("127.0.0.1", "127.0.0.1"),
        ("0x7F.1", "127.0.0.1"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("example.org.", "example.org."),
    ],
)
def test_a_host_is_what_browsers_make_of_it(host: str, expected: str) -> None:
    assert ascii_host(host) == expected


@pytest.mark.parametrize(
    "host",
    ["a%2fb.example", "℀.example", "a%00b", "b%fccher.example", "[fe80::1%25eth0]", "[nothing]", "a b", "é" * 2000],
)
def test_what_can_be_no_host_stays_as_it_is(host: str) -> None:
    assert ascii_host(host) == host


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://ann:p%40ss@bücher.example:8080/ü?ö#ä", f"http://ann:p%40ss@{BOOKS}:8080/ü?ö#ä"),
        ("http://[::0001]:80/a", "http://[::1]:80/a"),
        ("http://Example.org/%C3%BC", "http://Example.org/%C3%BC"),
        ("data:,ü", "data:,ü"),
        ("/ü", "/ü"),
    ],
)
def test_of_a_url_the_host_alone_is_written_anew(url: str, expected: str) -> None:
    assert with_ascii_host(url) == expected
