"""``taskqueue.robots``: tasks of a site's sitemaps, friendly or hostile."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue import Retry, default_taskid, links
from taskqueue.robots import Robots
from tests.nightly import usually

if TYPE_CHECKING:
    from tests.unit.robots.conftest import Site

Make = Callable[..., Any]

HOME = "http://site.example/"
MAP = "http://site.example/sitemap.xml"


def at(written: str) -> str:
    """Make a url of a path of the site; a url stays as it is."""
    return f"http://site.example{written}" if written.startswith("/") else written


def urlset(*pages: str | tuple[str, str]) -> bytes:
    """Make a sitemap of pages, or of pages and times of their last change."""
    entries = [(at(page), "") if isinstance(page, str) else (at(page[0]), page[1]) for page in pages]
    text = "".join(
        f"<url><loc>{url}</loc>{f'<lastmod>{lastmod}</lastmod>' if lastmod else ''}</url>" for url, lastmod in entries
    )
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{text}</urlset>'.encode()


def index(*sitemaps: str) -> bytes:
    """Make a sitemap index."""
    text = "".join(f"<sitemap><loc>{at(each)}</loc><lastmod>2026-01-01</lastmod></sitemap>" for each in sitemaps)
    return f"<sitemapindex>{text}</sitemapindex>".encode()


@pytest.fixture
def tasks_of(make: Make, site: Site) -> Callable[..., list[Any]]:
    """Return the tasks of one sitemap that no robots.txt names."""

    def tasks_of(body: bytes, **named: Any) -> list[Any]:
        site.answers[MAP] = (200, body)
        return list(make(min_delay=0).sitemap_tasks(HOME, sitemaps=[MAP], **named))

    return tasks_of


Tasks = Callable[..., list[Any]]

FILES_ALONE = pytest.mark.parametrize("make", usually(["blocking"], nightly=["blocking", "asyncio"]), indirect=True)
"""Mark of tests with large files, which both kinds of robots read by the same function."""


# -------------------------------------------------------------------------------------------- tasks


def test_the_sitemaps_that_robots_txt_names_become_tasks(make: Make, site: Site) -> None:
    site.says(
        f"Sitemap: {MAP}\nUser-agent: *\nDisallow: /x\nSitemap: http://site.example/more.txt\nSitemap: ftp://site.example/none"
    )
    site.answers[MAP] = (200, urlset("http://site.example/a"))
    site.answers["http://site.example/more.txt"] = (200, b"http://site.example/b\n")

    tasks = list(make(min_delay=0).sitemap_tasks("http://site.example/any/page"))

    assert [task.url for task in tasks] == ["http://site.example/a", "http://site.example/b"]


def test_the_time_of_the_last_change_is_the_itag(tasks_of: Tasks) -> None:
    tasks = tasks_of(urlset(("/a", " 2026-11-22T10:00:00+01:00 "), "/b", ("/c", "x" * 65)))

    assert [task.schedule.itag for task in tasks] == ["2026-11-22T10:00:00+01:00", None, None]


def test_tasks_have_the_options_that_are_given(tasks_of: Tasks) -> None:
    [plain] = tasks_of(urlset(("/a", "2026")), priority=3, age="1d")
    [tagged] = tasks_of(urlset(("/a", "2026")), itag="mine")

    assert (plain.schedule.priority, plain.schedule.age, plain.schedule.itag) == (3, 86_400, "2026")
    assert tagged.schedule.itag == "mine"


def test_a_page_is_the_same_task_as_by_a_link(tasks_of: Tasks) -> None:
    written = "HTTP://ann:pw@Site.example:80/é?q=a b&amp;c#part"

    [task] = tasks_of(urlset(written))

    assert [task.url] == links(f'<a href="{written}">', HOME)
    assert task.taskid == default_taskid(task.url)


def test_only_pages_of_the_site_count(tasks_of: Tasks) -> None:
    body = urlset("http://site.example/1", "https://site.example/2", "http://site.example:81/3",
                  "http://www.site.example/4", "http://other.example/5", "file:///etc/passwd", "javascript:x()",
                  "", "http://", "page", at(f"/{'x' * 9000}"), at(f"/{'x' * 30_000}"))  # fmt: skip

    numbers = {same: "".join(task.url[-1] for task in tasks_of(body, same=same)) for same in ("host", "domain", "any")}

    assert numbers == {"host": "12", "domain": "1234", "any": "12345"}


def test_a_page_of_text_is_no_sitemap(tasks_of: Tasks) -> None:
    assert tasks_of(b"Not found\n/page\nwww.site.example/page\n") == []


def test_a_site_is_a_url_of_http(make: Make) -> None:
    with pytest.raises(ValueError, match="site: expected an absolute http or https URL"):
        list(make().sitemap_tasks("site.example"))
    with pytest.raises(ValueError, match="same: expected one of host, domain, any"):
        list(make().sitemap_tasks(HOME, sitemaps=[MAP], same="path"))


def test_while_nobody_knows_which_sitemaps_there_are_the_task_waits(make: Make, site: Site) -> None:
    site.fails(503)
    with pytest.raises(Retry, match="503"):
        list(make().sitemap_tasks(HOME))

    site.fails(OSError("no route"))
    with pytest.raises(ConnectionError, match="no route"):
        list(make().sitemap_tasks(HOME))


def test_a_site_without_sitemaps_has_no_tasks(make: Make) -> None:
    assert list(make().sitemap_tasks(HOME)) == []


# -------------------------------------------------------------------------------------------- files


def test_indexes_are_followed_and_each_file_is_fetched_once(make: Make, site: Site) -> None:
    site.answers[MAP] = (200, index("/a.xml", "/b.xml", MAP, "/a.xml#again"))
    site.answers["http://site.example/a.xml"] = (200, index("/b.xml", "/c.xml"))
    site.answers["http://site.example/b.xml"] = (200, urlset("/1"))
    site.answers["http://site.example/c.xml"] = (200, urlset("/2"))

    tasks = make(min_delay=0).sitemap_tasks(HOME, sitemaps=[MAP])

    assert [task.url[-1] for task in tasks] == ["1", "2"]
    assert set(site.asked.values()) == {1}


def test_indexes_are_followed_three_levels_deep(make: Make, site: Site) -> None:
    for level in range(10):
        site.answers[f"http://site.example/{level}"] = (200, index(f"/{level + 1}"))

    list(make(min_delay=0).sitemap_tasks(HOME, sitemaps=[at("/0")]))

    assert [url[-1] for url in site.asked] == ["0", "1", "2", "3"]


def test_no_more_files_are_fetched_than_are_wanted(make: Make, site: Site) -> None:
    site.answers[MAP] = (200, index(*(f"/{number}" for number in range(50_000))))

    list(make(min_delay=0).sitemap_tasks(HOME, sitemaps=[MAP], max_files=4))

    assert list(site.asked) == [MAP, *(f"http://site.example/{number}" for number in range(3))]


def test_robots_txt_may_name_sitemaps_elsewhere_and_an_index_only_those_beside_it_or_of_the_site(
    make: Make, site: Site
) -> None:
    site.says("Sitemap: http://cdn.example/index.xml")
    site.answers["http://cdn.example/index.xml"] = (
        200, index("http://cdn.example/a.xml", "/b.xml", "http://victim.example/c.xml", "file:///etc/passwd"),
    )  # fmt: skip

    list(make(min_delay=0).sitemap_tasks(HOME))

    assert list(site.asked)[1:] == [
        "http://cdn.example/index.xml", "http://cdn.example/a.xml", "http://site.example/b.xml",
    ]  # fmt: skip


@pytest.mark.parametrize("how", [(404, urlset("/x")), (500, b""), OSError("no route"), (200, b"<!DOCTYPE html><p>")])
def test_a_file_that_cannot_be_had_is_passed_over_and_logged(
    make: Make, site: Site, caplog: pytest.LogCaptureFixture, how: Any
) -> None:
    site.answers[MAP] = how
    site.answers["http://site.example/b.xml"] = (200, urlset("/1"))

    tasks = make(min_delay=0).sitemap_tasks(HOME, sitemaps=[MAP, at("/b.xml")])

    assert [task.url for task in tasks] == ["http://site.example/1"]
    assert f"event=sitemap-unread url={MAP} pages=0 reason=" in caplog.text


def test_files_are_fetched_as_tasks_are_asked_for(site: Site) -> None:
    site.answers[MAP] = (200, urlset("/1", "/2"))

    tasks = Robots(site.fetch, "examplebot", min_delay=0).sitemap_tasks(HOME, sitemaps=[MAP, at("/b.xml")])

    assert [task.url for task in islice(tasks, 2)] == ["http://site.example/1", "http://site.example/2"]
    assert set(site.asked) == {MAP}


@pytest.mark.parametrize(("asks", "pauses"), [("", [0, 1, 1]), ("Crawl-delay: 7", [0, 7, 7])])
def test_between_two_files_the_site_is_left_alone_for_as_long_as_it_asks(
    make: Make, site: Site, monkeypatch: pytest.MonkeyPatch, asks: str, pauses: list[float]
) -> None:
    site.says(f"User-agent: *\n{asks}\n" + "".join(f"Sitemap: http://site.example/{name}.xml\n" for name in "abc"))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    list(make().sitemap_tasks(HOME))

    assert slept == pauses


# -------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(urlset("/1", "/2")),
        gzip.compress(urlset("/1")[:-9]) + gzip.compress(b"<url><loc>http://site.example/2</loc></url></urlset>"),
        b"\xef\xbb\xbf\r\n http://site.example/1\r\n\r\n# no url\r\nhttp://site.example/2",
        gzip.compress(b"http://site.example/1\nhttp://site.example/2\n"),
        b"\xef\xbb\xbf \n" + urlset("/1", "/2"),
        urlset("/1", "/2").replace(b'"1.0"', b'"1.0" encoding="windows-1251"'),
        urlset("/1", "/2").replace(b"urlset xmlns", b"s:urlset xmlns:s").replace(b"/urlset", b"/s:urlset"),
        urlset("/1", "<![CDATA[http://site.example/2]]>"),
        urlset("/1", "/2").replace(b"<loc>http", b"<image:image><image:loc>http://site.example/9</image:loc></image:image><loc>http"),
        urlset("/1", "/2") + b"<junk",
        urlset("/1", "/2", "/3").replace(b"/3<", b"/3?a&b<"),
        gzip.compress(urlset("/1", "/2") + bytes(1 << 16))[:-10],
    ],
    ids=["gzip", "two gzips", "text", "gzipped text", "mark", "encoding", "prefix", "cdata", "image", "junk",
         "mistake", "torn gzip"],
)  # fmt: skip
def test_a_sitemap_is_read_whatever_it_is_written_in_and_up_to_the_first_mistake(tasks_of: Tasks, body: bytes) -> None:
    urls = [task.url for task in tasks_of(body)]

    assert urls == ["http://site.example/1", "http://site.example/2"]


@FILES_ALONE
def test_no_more_than_50_000_pages_of_a_file_count(tasks_of: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    pages = [at("/1"), *["ftp:"] * 49_998, at("/50000"), at("/50001")]

    for body in (urlset(*pages), "\n".join(pages).encode()):
        assert [task.url for task in tasks_of(body)] == [at("/1"), at("/50000")]
    assert caplog.text.count("pages=50000 reason='too many entries'") == 2


# -------------------------------------------------------------------------------------------- hostile


def laughs() -> bytes:
    """Make entities, each ten of the one before."""
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    return f'<!DOCTYPE urlset [<!ENTITY a0 "ha">{entities}]><urlset><url><loc>http://site.example/&a11;</loc></url></urlset>'.encode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "laughs": laughs,
    "file": lambda: (
        b'<!DOCTYPE u [<!ENTITY f SYSTEM "file:///etc/hostname">]><urlset><url><loc>http://site.example/&f;</loc></url></urlset>'
    ),
    "dtd": lambda: (
        b'<!DOCTYPE u SYSTEM "http://victim.example/x.dtd"><urlset><url><loc>http://site.example/1</loc></url></urlset>'
    ),
    "entity": lambda: b"<urlset><url><loc>http://site.example/&nbsp;</loc></url></urlset>",
    "deep": lambda: b"<urlset>" + b"<a>" * 4_000_000,
    "attributes": lambda: b"<urlset " + b" ".join(b"a%d='1'" % n for n in range(500_000)) + b"/>",
    "names": lambda: b"<urlset>" + b"".join(b"<a%d/>" % n for n in range(500_000)) + b"</urlset>",
    "text": lambda: b"<urlset><url><loc>http://site.example/" + b"x" * 20_000_000 + b"</loc></url></urlset>",
    "texts": lambda: b"<urlset><url>" + b"<loc>x</loc>" * 1_000_000 + b"</url></urlset>",
    "comment": lambda: b"<urlset><!--" + b"x" * 20_000_000,
    "value": lambda: b"<urlset a='" + b"x" * 20_000_000,
    "section": lambda: b"<urlset><![CDATA[" + b"x" * 20_000_000,
    "encoding": lambda: (
        b"<?xml version='1.0' encoding='zlib'?><urlset><url><loc>http://site.example/1</loc></url></urlset>"
    ),
    "many bytes": lambda: (
        b"<?xml version='1.0' encoding='shift_jis'?><urlset><url><loc>http://site.example/1</loc></url></urlset>"
    ),
    "line": lambda: b"x" * 20_000_000,
    "lines": lambda: b"\n" * 20_000_000,
    "blanks": lambda: b" \n" * 10_000_000,
    "bomb": lambda: gzip.compress(b"<urlset>" + bytes(200 << 20)),
    "spaces": lambda: gzip.compress(b" " * (200 << 20)),
    "no gzip": lambda: b"\x1f\x8b" * 1000,
    "feed": lambda: b"<rss><channel><item><link>/1</link></item></channel></rss>",
    "nothing": lambda: b"",
}
"""Files that let readers load other files, contact third parties, or take minutes and gigabytes; made when they are
read:
half a gigabyte.
"""


@FILES_ALONE
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_sitemap_that_is_made_to_hurt_gives_no_tasks_and_leads_nowhere(
    tasks_of: Tasks, site: Site, body: Callable[[], bytes]
) -> None:
    assert tasks_of(body()) == []
    assert set(site.asked) == {MAP}


@FILES_ALONE
def test_a_file_is_unpacked_up_to_a_bound(tasks_of: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    body = gzip.compress(
        urlset("/1")[:-9] + b" " * (60 << 20) + b"<url><loc>http://site.example/2</loc></url></urlset>"
    )

    assert [task.url for task in tasks_of(body)] == ["http://site.example/1"]
    assert "reason='too large'" in caplog.text
