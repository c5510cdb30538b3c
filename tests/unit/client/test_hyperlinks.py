"""``taskqueue.links``: links of a page, from any author."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from http.client import HTTPMessage
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from urllib3 import HTTPHeaderDict

from taskqueue import links

HERE = "http://site.example/a/b.html"

HOSTILE = {
    "deep": "<div>" * 400_000,
    "attributes": "<a " + " ".join(f"a{n}=1" for n in range(60_000)) + ">",
    "formatting": "<b><i><u><font>" * 20_000 + "<p>" * 20_000,
    "comments": "<!--" * 200_000,
    "declarations": "<!" * 300_000,
    "marked sections": "<![CDATA[" * 100_000,
    "instructions": "<?" * 300_000,
    "end tags": "</" * 300_000,
    "unclosed tags": '<a href="/x"' * 100_000,
    "unclosed quotes": '<a href="/x" b=\'" ' * 100_000,
    "selects": "<select><option>" * 50_000,
    "links": "".join(f'<a href="http://other{n}.example/">' for n in range(60_000)),
    "a long link": '<a href="' + "&" * 2_000_000 + '">',
    "waiting": '<meta http-equiv=refresh content="' + " " * 500_000 + '">',
}
"""Pages of about a megabyte for which one parser or another takes minutes or crashes."""


def test_links_are_absolute_and_each_is_given_once_in_the_order_of_the_page() -> None:
    html = """<a href="c.html">1</a> <A HREF=/d?b=2&amp;a=1>2</A> <a href="./c.html#part">3</a>
              <area href="../e"> <iframe src="f"></iframe> <a href="//site.example">4</a>"""

    assert links(html, HERE) == [
        "http://site.example/a/c.html",
        "http://site.example/d?b=2&a=1",
        "http://site.example/e",
        "http://site.example/a/f",
        "http://site.example/",
    ]


def test_what_no_fetcher_can_fetch_is_left_out() -> None:
    html = """<a href="file:///etc/passwd"><a href="mailto:a@site.example"><a href="javascript:x()"><a href="tel:+1">
              <a href="data:text/html,x"><a href="ftp://site.example/"><a href="http://"><a href="//">
              <a href="http://[broken/"><a href="http://site.example:99999/"><a href="http://site example/">
              <a><a href><a href="">"""

    assert links(html, HERE, same="any") == []


def test_a_page_on_the_local_disk_is_no_page() -> None:
    with pytest.raises(ValueError, match="base: expected the page's absolute http or https URL, not 'file:///tmp/"):
        links('<a href="x">', "file:///tmp/index.html")


def test_the_page_itself_is_left_out() -> None:
    assert links('<a href="#top"><a href=""><a href="b.html"><a href="?">', HERE) == []


def test_comments_scripts_and_texts_hold_no_links() -> None:
    html = """<!-- <a href="c"> --><script>'<a href="s">'</script><textarea><a href="t"></textarea>
              <a title='<a href="u">'><img src="i.png"><link rel="stylesheet" href="l.css">"""

    assert links(html, HERE) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (" \t\nc d.html\n ", "http://site.example/a/c%20d.html"),
        ("c\nd", "http://site.example/a/cd"),
        ("HTTP://SITE.Example:80/A?", "http://site.example/A"),
        ("https://site.example:443/x", "https://site.example/x"),
        ("http://ann:secret@site.example/x", "http://site.example/x"),
        ("\\\\site.example\\x", "http://site.example/x"),
        ("é?q=é", "http://site.example/a/%C3%A9?q=%C3%A9"),
        ("/%7Eann?x=%zz", "http://site.example/%7Eann?x=%zz"),
        ("/../../x", "http://site.example/x"),
        ("c//d", "http://site.example/a/c//d"),
        ("c//../d/.", "http://site.example/a/c/d/"),
        ("../../..//x?y=../z", "http://site.example//x?y=../z"),
        ("http://site.example/b/../x/./y/..", "http://site.example/x/"),
        ("//site.example/b/%2E%2e/x", "http://site.example/x"),
        ("http://site.example//x/../y/.hidden/..", "http://site.example//y/"),
    ],
)
def test_a_link_is_written_so_that_it_can_be_requested(written: str, meant: str) -> None:
    assert links(f'<a href="{written}">', HERE) == [meant]


def test_links_are_relative_to_the_base_element_but_the_site_stays_that_of_the_page() -> None:
    html = '<base href="/deep/"><base href="/other/"><a href="x">'
    foreign = '<base href="http://evil.example/"><a href="x"><a href="http://site.example/y">'

    assert links(html, HERE) == ["http://site.example/deep/x"]
    assert links(foreign, HERE) == ["http://site.example/y"]
    assert links('<base href="javascript:x()"><a href="x">', HERE) == ["http://site.example/a/x"]


def test_a_meta_refresh_is_a_link() -> None:
    html = """<meta http-equiv="Refresh" content="0; URL='next.html'"> <meta http-equiv=refresh content="5">
              <meta http-equiv="refresh" content="3;other.html">"""

    assert links(html, HERE) == ["http://site.example/a/next.html", "http://site.example/a/other.html"]


# -------------------------------------------------------------------------------------------- of which site


MIXED = """<a href="http://site.example/1"><a href="https://site.example/2"><a href="http://site.example:8080/3">
           <a href="http://www.site.example/4"><a href="http://other.example/5">"""


def test_by_default_links_stay_on_the_host_and_port_over_http_and_https() -> None:
    assert links(MIXED, HERE) == ["http://site.example/1", "https://site.example/2"]


def test_the_domain_is_what_somebody_registered() -> None:
    assert links(MIXED, HERE, same="domain") == [
        "http://site.example/1",
        "https://site.example/2",
        "http://site.example:8080/3",
        "http://www.site.example/4",
    ]


def test_addresses_have_no_domain_so_only_the_same_one_counts() -> None:
    html = '<a href="http://127.0.0.1:8000/x"><a href="http://9.0.0.1/"><a href="http://localhost/">'

    assert links(html, "http://127.0.0.1:8000/", same="domain") == ["http://127.0.0.1:8000/x"]


def test_any_site_is_taken_when_asked_for() -> None:
    assert len(links(MIXED, HERE, same="any")) == 5


def test_a_site_that_is_none_of_the_three_is_refused() -> None:
    with pytest.raises(ValueError, match="same: expected one of host, domain, any, not 'site'"):
        links("", HERE, same="site")  # type: ignore[arg-type]


def test_patterns_say_which_urls_are_taken() -> None:
    html = '<a href="/news/1"><a href="/news/2?print=1"><a href="/shop/3"><a href="/help">'

    assert links(html, HERE, include="/news/") == ["http://site.example/news/1", "http://site.example/news/2?print=1"]
    assert links(html, HERE, include=["/news/", re.compile("/HELP$", re.IGNORECASE)], exclude=r"\?print=") == [
        "http://site.example/news/1",
        "http://site.example/help",
    ]


# -------------------------------------------------------------------------------------------- headers, encodings


def test_a_redirect_is_a_link_like_others() -> None:
    assert links(b"", HERE, headers={"Location": "/moved?b=1#x"}) == ["http://site.example/moved?b=1"]
    assert links(b"", HERE, headers={"Location": "file:///etc/passwd"}) == []
    assert links(b"", HERE, headers={"location": "http://other.example/"}) == []


def test_headers_of_any_client_will_do() -> None:
    of_the_standard_library = HTTPMessage()
    of_the_standard_library["location"] = "/moved"
    of_urllib3 = HTTPHeaderDict({"LOCATION": "/moved", "Content-Type": "text/html"})

    assert links(b"", HERE, headers=of_the_standard_library) == links(b"", HERE, headers=of_urllib3)


@pytest.mark.parametrize("kind", ["text/plain", "application/pdf; x=y", "IMAGE/PNG"])
def test_what_is_no_html_has_no_links(kind: str) -> None:
    assert links(b'<a href="x">', HERE, headers={"Content-Type": kind}) == []


@pytest.mark.parametrize("kind", ["text/html", "Text/HTML; charset=utf-8", "application/xhtml+xml", ""])
def test_html_has_links(kind: str) -> None:
    assert links(b'<a href="x">', HERE, headers={"content-TYPE": kind}) == ["http://site.example/a/x"]


@pytest.mark.parametrize(
    ("encoding", "kind", "before"),
    [
        ("utf-8", "text/html", ""),
        ("koi8-r", "text/html; charset=KOI8-R", ""),
        ("windows-1251", "text/html", '<meta charset="windows-1251">'),
        ("cp932", "", '<meta http-equiv="content-type" content="text/html; charset=Shift_JIS">'),
        ("utf-16", "text/html; charset=iso-8859-1", ""),
        ("utf-8", "text/html", '<meta charset="utf-16">'),
    ],
)
def test_a_page_is_read_in_its_encoding_and_its_queries_are_sent_in_it(encoding: str, kind: str, before: str) -> None:
    page = (before + '<a href="/страница?q=да">').encode(encoding)

    [found] = links(page, HERE, headers={"Content-Type": kind})

    path, query = found.removeprefix("http://site.example/").split("?q=")
    assert unquote_to_bytes(path).decode() == "страница"
    assert unquote_to_bytes(query).decode("utf-8" if encoding == "utf-16" else encoding) == "да"


@pytest.mark.parametrize("kind", ["", "text/html", "text/html; charset=nonsense", "text/html; charset="])
def test_a_page_that_says_no_charset_and_is_no_utf_8_is_read_as_windows_1252(kind: str) -> None:
    page = '<a href="/café?q=“é”">'.encode("cp1252") + b'<a href="/\x81">'

    found = links(page, HERE, headers={"Content-Type": kind})

    assert found == ["http://site.example/caf%C3%A9?q=%93%E9%94", "http://site.example/%C2%81"]


def test_a_bad_byte_does_not_make_a_page_of_utf_8_another_one() -> None:
    page = '<a href="/café?q=é"><a href="/naïve">'.encode() + b'<a href="/caf\xe9">' + "é".encode()[:1]

    assert links(page, HERE) == [
        "http://site.example/caf%C3%A9?q=%C3%A9",
        "http://site.example/na%C3%AFve",
        "http://site.example/caf%C3%A9",
    ]


def test_a_charset_that_a_page_says_counts_also_if_it_is_wrong() -> None:
    page = b'<meta charset="utf-8"><a href="/caf\xe9">'

    assert links(page, HERE) == ["http://site.example/caf%EF%BF%BD"]


@given(st.binary(max_size=60))
@example(b"\xe9")
@example(b"\xc3\xa9\xe9\x81")
def test_no_byte_of_a_page_without_a_charset_is_lost(written: bytes) -> None:
    page = b'<a href="/x' + written.translate(None, b'"<>&\0').replace("\ufffd".encode(), b"") + b'">'

    assert "%EF%BF%BD" not in "".join(links(page, HERE))


def test_letters_that_the_encoding_of_a_page_lacks_are_sent_as_browsers_do() -> None:
    page = '<a href="/x?q=&#26085;&amp;r=é#&#26412;">'.encode("cp1252")

    assert links(page, HERE) == ["http://site.example/x?q=%26%2326085%3B&r=%E9"]


@pytest.mark.parametrize(
    "charset", ["zlib", "hex", "idna", "undefined", "punycode", "unicode_escape", "utf-7", "no" * 99]
)
def test_an_encoding_that_is_none_is_utf_8(charset: str) -> None:
    page = b'<a href="/x">' + b"a-" * 200_000

    assert links(page, HERE, headers={"Content-Type": f"text/html; charset={charset}"}) == ["http://site.example/x"]


def test_a_link_to_a_host_in_other_letters_leads_to_that_host_and_no_other() -> None:
    html = '<a href="http://faß.de/"><a href="http://b%C3%BCcher.example/"><a href="http://i❤.ws/">'

    found = ["http://xn--fa-hia.de/", "http://xn--bcher-kva.example/", "http://xn--i-7iq.ws/"]
    assert links(html, HERE, same="any") == found


# -------------------------------------------------------------------------------------------- nofollow


UNLOVED = """<a href="/1" rel="external NoFollow"><a href="/2" rel="nofollowing"><a rel href="/3"><a rel="" href="/4">
             <area href="/2" rel=nofollow>"""


def test_links_that_are_not_to_be_followed_are_left_out_when_asked_for() -> None:
    assert [url[-1] for url in links(UNLOVED, HERE)] == ["1", "2", "3", "4"]
    assert [url[-1] for url in links(UNLOVED, HERE, nofollow=True)] == ["2", "3", "4"]


@pytest.mark.parametrize("said", ["nofollow", "noindex, NoFollow", "none"])
def test_a_page_may_ask_that_none_of_its_links_be_followed(said: str) -> None:
    html = f'<a href="/before"><META NAME="Robots" CONTENT="{said}"><a href="/after">'

    assert len(links(html, HERE)) == 2
    assert links(html, HERE, nofollow=True) == []
    assert links('<a href="/x">', HERE, headers={"X-Robots-Tag": said}, nofollow=True) == []


@pytest.mark.parametrize("said", ["noindex", "", "follow", "nofollowing"])
def test_other_wishes_of_a_page_leave_its_links_alone(said: str) -> None:
    html = f'<meta name="robots" content="{said}"><meta name="googlebot" content="nofollow"><a href="/x">'

    assert links(html, HERE, headers={"X-Robots-Tag": f"googlebot: nofollow, {said}"}, nofollow=True) == [
        "http://site.example/x"
    ]


def test_a_redirect_is_followed_whatever_its_page_says_of_links() -> None:
    said = {"Location": "/moved", "X-Robots-Tag": "nofollow"}

    assert links('<a href="/x">', HERE, headers=said, nofollow=True) == ["http://site.example/moved"]


# -------------------------------------------------------------------------------------------- strangers


@pytest.mark.timeout(20)
@pytest.mark.parametrize("page", HOSTILE.values(), ids=HOSTILE)
def test_a_page_that_is_made_to_hurt_is_read_in_one_pass(page: str) -> None:
    assert links(f'<a href="/before">{page}', HERE) == ["http://site.example/before"]


def test_no_more_links_are_found_than_can_be_reported() -> None:
    html = "".join(f'<a href="/{n}">' for n in range(10_050))

    assert len(links(html, HERE, headers={"Location": "/moved"})) == 10_000


def test_a_url_that_is_too_long_is_left_out() -> None:
    assert links(f'<a href="{"x" * 9000}"><a href="{"é" * 5000}"><a href="/y">', HERE) == ["http://site.example/y"]


PIECES = """<a href=" | <base href=' | "> | '> | < | > | http: | https:// | // | \\ | @ | [ | ] | : | file: | % | # |
            ? | \0 | \udcff | é | ． | \t | site.example | evil.example | &#x | ;"""
MARKUP = st.lists(
    st.sampled_from([piece.strip(" \n") for piece in PIECES.split("|")]) | st.text(max_size=5), max_size=40
).map("".join)


@given(MARKUP, st.sampled_from(["host", "domain", "any"]))
@example('<a href="http://evil.example\\@site.example/x">', "host")
@example('<a href="http://site.example\\@evil.example/x">', "host")
def test_whatever_a_page_says_only_urls_of_the_site_come_out(html: str, same: str) -> None:
    found = links(html, HERE, same=same)  # type: ignore[arg-type]

    assert all(url.startswith(("http://", "https://")) and url.isascii() for url in found)
    assert all(url == links(f'<a href="{url.replace("&", "&amp;")}">', HERE, same="any")[0] for url in found)
    if same == "host":
        assert {urlsplit(url).netloc for url in found} <= {"site.example"}


@given(st.binary(max_size=200), st.text(max_size=40))
def test_no_bytes_and_no_header_raise_an_error(page: bytes, header: str) -> None:
    links(b'<a href="' + page, HERE, headers={"Content-Type": f"text/html; charset={header}", "Location": header})


def test_nothing_heavy_is_imported_before_the_first_use() -> None:
    code = (
        "import sys, json, taskqueue; taskqueue.Client, taskqueue.links;"
        "print(json.dumps([m for m in ('lxml', 'w3lib', 'publicsuffixlist') if m in sys.modules]))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert json.loads(said) == []
