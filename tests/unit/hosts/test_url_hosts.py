"""Hosts of urls, however they look, and names of tasks' slots."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskqueue.core.model.slot_names import slot_name
from taskqueue.hosts import url_hosts
from taskqueue.hosts.ascii_hosts import ascii_host
from taskqueue.hosts.url_hosts import MAX_HOST_BYTES, OWN_PORTS
from taskqueue.settings.slots import Division

URL = "http://www.example.org/a"
BOOKS = "xn--bcher-kva.example"


def host_of(url: str) -> str:
    return url_hosts.host_of(url, ascii_host)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.org", "example.org"),
        ("https://example.org/", "example.org"),
        ("http://example.org?a=http://b.org/", "example.org"),
        ("http://example.org#part", "example.org"),
        ("http://my_shop.example-2.org/a:1@b", "my_shop.example-2.org"),
        ("http://localhost/", "localhost"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("ftp://example.org/file", "example.org"),
        ("x-own+scheme.2://example.org/", "example.org"),
    ],
)
def test_the_host_is_what_stands_between_the_scheme_and_the_path(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize("url", ["HTTP://WWW.Example.ORG/A", "Https://www.EXAMPLE.org/A", "ftp://WWW.example.org/A"])
def test_scheme_and_host_do_not_mind_the_case(url: str) -> None:
    assert host_of(url) == "www.example.org"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.org:80/", "example.org"),
        ("https://example.org:443/", "example.org"),
        ("ftp://example.org:21/", "example.org"),
        ("wss://example.org:443/", "example.org"),
        ("http://example.org:/", "example.org"),
        ("http://example.org:0080/", "example.org"),
        ("http://example.org:443/", "example.org:443"),
        ("https://example.org:80/", "example.org:80"),
        ("http://example.org:800/", "example.org:800"),
        ("http://example.org:8080/", "example.org:8080"),
        ("http://example.org:8", "example.org:8"),
        ("http://example.org:8080\\a", "example.org:8080"),
        ("http://example.org:08080/", "example.org:8080"),
        ("http://example.org:000000008080/", "example.org:8080"),
        ("http://example.org:60000?a", "example.org:60000"),
        ("http://example.org:65535#a", "example.org:65535"),
        ("http://example.org:0/", "example.org:0"),
        ("http://example.org:000/", "example.org:0"),
        ("x://example.org:80/", "example.org:80"),
    ],
)
def test_a_port_is_told_if_it_does_not_go_without_saying(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize("port", ["65536", "99999", "100000", "9" * 200, "80a", "a", "-1", "+80", " 80", "٨٠", "80:80"])
def test_a_host_with_a_port_that_is_none_can_not_be_asked(port: str) -> None:
    assert host_of(f"http://example.org:{port}/") == ""


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://ann@example.org/", "example.org"),
        ("http://ann:secret@example.org:8080/", "example.org:8080"),
        ("http://@example.org/", "example.org"),
        ("http://a@b@example.org/", "example.org"),
        ("http://evil.org:80@example.org/", "example.org"),
        ("http://[::1]@example.org/", "example.org"),
        ("http://example.org/@evil.org", "example.org"),
        ("http://example.org?@evil.org", "example.org"),
        ("http://example.org#@evil.org", "example.org"),
        ("http://ann@/", ""),
    ],
)
def test_user_and_password_are_not_the_host(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://[::1]/", "[::1]"),
        ("http://[2001:DB8::1]:8080/", "[2001:db8::1]:8080"),
        ("https://ann@[::1]:443", "[::1]"),
        ("http://[::ffff:127.0.0.1]/", "[::ffff:7f00:1]"),
        ("http://[2001:0DB8:0:0::1]/", "[2001:db8::1]"),
        ("http://[::1].:8080/", "[::1]:8080"),
        ("http://[fe80::1%25eth0]/", "[fe80::1%25eth0]"),
    ],
)
def test_an_address_of_ipv6_keeps_its_brackets_and_is_at_its_shortest(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "place", ["[::1", "::1]", "[]", "[::1]a", "[[::1]]", "[example.org]", "a[::1]", "[::1] ", "::1"]
)
def test_brackets_around_anything_else_are_no_host(place: str) -> None:
    assert host_of(f"http://{place}/") == ""


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.org./a", "example.org"),
        ("http://Example.org../a", "example.org"),
        ("http://example.org.:8080/a", "example.org:8080"),
        ("http://a..b/", "a..b"),
        ("http://./", ""),
        ("http://...:80/", ""),
    ],
)
def test_dots_at_the_end_of_a_host_are_not_part_of_its_name(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.org\\@evil.org/", "example.org"),
        ("http://example.org\\.evil.org/", "example.org"),
        ("http:\\\\example.org\\a", "example.org"),
        ("http:/\\example.org/", "example.org"),
        ("http://ann\\b@evil.org/", "ann"),
        ("http://\\evil.org/", ""),
    ],
)
def test_a_backslash_is_a_slash_as_it_is_for_browsers(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        " http://example.org/", "\n\x00http://example.org/", "ht\ntp://example.org/", "http:\t//example.org/",
        "http://exam\r\nple.org/", "http://example.org\n", "http://example.org:8\t0/a",
    ],
)  # fmt: skip
def test_tabs_and_line_breaks_are_not_there_as_for_browsers(url: str) -> None:
    assert host_of(url) == "example.org"


@pytest.mark.parametrize("sign", [" ", "\x00", "\x1b", "\x7f", "\x85", "@ "])
def test_a_host_with_spaces_or_control_characters_can_not_be_asked(sign: str) -> None:
    assert host_of(f"http://exam{sign}ple.org/") == ""
    assert host_of(f"http://EXAM{sign}PLE.org:81/") == ""


@pytest.mark.parametrize(
    "url",
    [
        "", "data:,on_finished", "data:text/html,http://example.org/", "mailto:ann@example.org", "plain text",
        "example.org/a", "//example.org/a", "/a/b", "http:example.org", "http:/example.org", "http://", "http:///a",
        "http://?a", "http://#a", "http://:80/", "file:///etc/hosts", "://example.org", "1http://example.org/",
        "ht tp://example.org/", "hä://example.org/", "urn:isbn:0451450523", "javascript:alert(1)//", "http//a.org",
    ],
)  # fmt: skip
def test_a_url_without_a_host_has_none(url: str) -> None:
    assert host_of(url) == ""


@pytest.mark.parametrize(
    "place",
    [
        "bücher.example", "BÜCHER.EXAMPLE", "bu\u0308cher.example", "b%C3%BCcher.example", "b%c3%bccher%2Eexample",
        "bücher。example", "ｂücher．example", "bücher.example.", "bücher.example。", "bücher.example%2E",
        "bü\u00adcher.example", BOOKS, "XN--BCHER-KVA.example", "ann@bücher.example:80", "bücher.example..:",
    ],
)  # fmt: skip
def test_a_host_has_one_name_however_it_is_spelled(place: str) -> None:
    assert host_of(f"http://{place}/ü") == BOOKS
    assert host_of(f"https://{place.removesuffix(':80').removesuffix(':')}:8443") == f"{BOOKS}:8443"


@pytest.mark.parametrize(
    ("place", "host"),
    [
        ("127.1", "127.0.0.1"),
        ("127.0.1:8080", "127.0.0.1:8080"),
        ("0x7F.0.0.0x1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x", "0.0.0.0"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("1.2.3.4.", "1.2.3.4"),
        ("1.2.3.256", "1.2.3.256"),
        ("256.1", "256.1"),
        ("1.2.3.4.5", "1.2.3.4.5"),
        ("4294967296", "4294967296"),
        ("09.1", "09.1"),
        ("1..2", "1..2"),
        ("127.0.0.0xg", "127.0.0.0xg"),
    ],
)
def test_an_address_of_ipv4_is_written_in_four_decimal_numbers_as_browsers_do_it(place: str, host: str) -> None:
    assert host_of(f"http://{place}/") == host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://例え.テスト:8080/", "xn--r8jz45g.xn--zckzah:8080"),
        ("http://faß.de/", "xn--fa-hia.de"),
        ("http://ΒΌΛΟΣ.com/", "xn--nxasmq6b.com"),
        ("http://ΒΌΛΟΣ-1.com/", "xn---1-e9b0buy4d.com"),  # in lower case the word ends in another letter
        ("http://βόλος.com/", "xn--nxasmm1c.com"),
        ("http://exam%70LE.org/", "example.org"),
    ],
)
def test_a_host_is_the_one_that_browsers_ask_for(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("place", "host"),
    [
        ("%00.org", "%00.org"), ("A%2Fb.org:8080", "a%2fb.org:8080"), ("B%FCcher.example", "b%fccher.example"),
        ("℀.Example", "℀.example"), ("％41.org", "％41.org"), ("é" * 100 + "%zz.ORG", "é" * 100 + "%zz.org"),
        ("\u00ad", ""), ("。", ""), ("%2e", ""),
    ],
)  # fmt: skip
def test_what_can_be_no_host_is_called_as_it_is_spelled_in_lower_case(place: str, host: str) -> None:
    assert host_of(f"http://{place}/") == host


def test_a_name_in_lower_case_is_not_mapped() -> None:
    def never(host: str) -> str:
        raise AssertionError(host)

    for place in ("example.org", "www.my_shop.example-2.co.uk:8080", "localhost", "127.0.0.1:8000", "255.1.20.199"):
        assert url_hosts.host_of(f"https://{place}/Ü", never) == place


@pytest.mark.parametrize("letters", ["a", "A"])
def test_a_host_is_as_long_as_a_name_can_be(letters: str) -> None:
    assert host_of(f"http://{letters * MAX_HOST_BYTES}:12345/") == f"{'a' * MAX_HOST_BYTES}:12345"
    assert host_of(f"http://{letters * (MAX_HOST_BYTES + 1)}/") == ""
    assert host_of(f"http://{letters * 8_000}/") == ""


def test_the_length_of_a_host_is_that_of_its_name() -> None:
    label = "ü" * 50

    assert host_of(f"http://{'%C3%BC' * 50}.{label}/") == ".".join([ascii_host(label)] * 2)
    assert host_of(f"http://{'.'.join(['ü'] * 40)}/") == ""
    assert host_of(f"http://{'ü' * 8_000}/") == ""


@pytest.mark.parametrize("url", ["http://" + "a@" * 4_000, "http://" + "." * 8_000, "x" * 8_000, " " * 8_000])
def test_a_long_url_without_a_host_has_none(url: str) -> None:
    assert host_of(url) == ""


def test_what_comes_before_the_host_may_be_as_long_as_it_likes() -> None:
    assert host_of(f"http://{'a:' * 4_000}@example.org/") == "example.org"


# ---------------------------------------------------------------------------------------- beside urlsplit


def split_host(url: str) -> str:
    """Return ``urlsplit``'s host of a url in which a backslash is a slash."""
    split = urlsplit(url.replace("\\", "/"))
    try:
        host, port = (split.hostname or "").lower().rstrip("."), split.port
    except ValueError:
        return ""
    host = ascii_host(f"[{host}]" if ":" in host else host).lower()
    return host if not host or port is None or str(port) == OWN_PORTS.get(split.scheme) else f"{host}:{port}"


NAMES = st.from_regex(r"\A[A-Za-z0-9ä_-]{1,12}(\.[A-Za-z0-9ä_%-]{1,12}){0,4}\.?\Z")
ADDRESSES = st.ip_addresses(v=6).map("[{}]".format) | st.ip_addresses(v=4).map(str)
PORTS = (
    st.just("") | st.just(":") | st.integers(0, 70_000).map(":{}".format) | st.sampled_from([":80", ":443", ":0080"])
)
USERS = st.just("") | st.from_regex(r"\A[A-Za-z0-9:@%.!$&'()*+,;=-]{0,20}@\Z")
ENDS = st.just("") | st.from_regex(r"\A[/?#\\][ -~]{0,30}\Z")
URLS = st.tuples(
    st.sampled_from(["http://", "https://", "HTTP://", "ftp://", "x+y://", "http:\\\\"]),
    USERS, NAMES | ADDRESSES | st.just(""), PORTS, ENDS,
).map("".join)  # fmt: skip


@given(URLS)
@example("http://a@b:@c.org:080/")
def test_the_host_is_the_one_that_urlsplit_finds(url: str) -> None:
    assert host_of(url) == split_host(url)


@given(st.text() | st.text("htps:/\\@[]%.?#\t\n ü1aA-"))
@example("http://İ.org")
def test_whatever_the_url_a_host_is_short_visible_and_the_host_of_itself(url: str) -> None:
    for text in (url, f"http://{url}"):
        host = host_of(text)

        assert len(host.encode(errors="replace")) <= MAX_HOST_BYTES + len(":65535")
        assert not any(sign <= " " or "\x7f" <= sign <= "\x9f" for sign in host)
        assert not host.isascii() or host == "" or host_of(f"x://{host}") == host


# ---------------------------------------------------------------------------------------- names


def domain_of(host: str) -> str:
    return f"domain of {host}"


@pytest.mark.parametrize(
    ("division", "own", "expected"),
    [
        ("none", None, ""),
        ("none", "api", ""),
        ("named", None, ""),
        ("named", "api", "api"),
        ("host", None, "www.example.org"),
        ("host", "api", "api"),
        ("domain", None, "domain of www.example.org"),
        ("domain", "api", "api"),
        ("named", "Bücher.example", "Bücher.example"),
        ("host", "Bücher.example", BOOKS),
        ("domain", "www.Bücher.example:8080", f"www.{BOOKS}:8080"),
        ("host", "Our Bücher", "Our Bücher"),
        ("host", "bücher/new", "bücher/new"),
        ("host", "Api.example", "Api.example"),
    ],
)
def test_a_slot_has_the_name_that_the_task_gives_or_that_of_its_host(
    division: Division, own: str | None, expected: str
) -> None:
    assert slot_name(division, URL, own, domain_of, ascii_host) == expected


@pytest.mark.parametrize("division", ["host", "domain"])
def test_a_task_whose_url_has_no_host_is_in_no_slot(division: Division) -> None:
    assert slot_name(division, "data:,a", None, domain_of, ascii_host) == ""
    assert slot_name(division, "data:,a", "api", domain_of, ascii_host) == "api"
