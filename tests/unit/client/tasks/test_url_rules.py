"""URLs that are refused where a URL stands for a task."""

from __future__ import annotations

import pytest

from taskqueue import new_task
from taskqueue.client.tasks.pushes import as_new_task

WEB = ["http://a", "HTTPS://a/b?c#d", "http://[::1]/", "http://a/b c", "http://a/\u00ad"]
OTHERS = ["data:,on_start", "s3://b/k", "user-42"]


@pytest.mark.parametrize("url", WEB + OTHERS)
def test_what_may_be_fetched_by_somebody_is_taken(url: str) -> None:
    assert as_new_task(url) == as_new_task({"url": url}) == new_task(url)


@pytest.mark.parametrize("url", ["http://a/ ", "\thttp://a/", "http://a/\n", "http://a/\x00", "http://a/b\x7fc", " "])
def test_what_is_around_a_url_is_none_of_it(url: str) -> None:
    with pytest.raises(ValueError, match="has white space around it or a control character in it"):
        as_new_task(url)


@pytest.mark.parametrize("url", ["/a", "?page=2", "#top", "./a", "../a", "//host/a"])
def test_a_relative_link_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is relative; taskqueue.links and urllib.parse.urljoin make links absolute"):
        as_new_task(url)


@pytest.mark.parametrize("url", ["http://", "https:/a", "http:a", "HTTP:///a"])
def test_a_web_url_has_a_host(url: str) -> None:
    with pytest.raises(ValueError, match="has no host"):
        as_new_task(url)


@pytest.mark.parametrize("url", ["mailto:ann@a", "javascript:x()", "JavaScript:x()", "tel:+1", "file:///etc/passwd"])
def test_a_scheme_that_leads_to_no_page_is_refused_but_new_task_takes_it(url: str) -> None:
    with pytest.raises(ValueError, match="leads to no page"):
        as_new_task(url)
    with pytest.raises(ValueError, match="leads to no page"):
        as_new_task({"url": url})

    assert as_new_task(new_task(url)).url == url


def test_a_map_that_is_a_result_is_told_that_it_would_be_a_task() -> None:
    with pytest.raises(ValueError, match=r"title: unknown field; a map is a new task; .* as Result"):
        as_new_task({"url": "http://a/", "title": "A"})
    with pytest.raises(ValueError, match=r"missing required field url; a map is a new task, .* as Result"):
        as_new_task({"body": 1})


def test_a_long_url_is_quoted_in_part() -> None:
    with pytest.raises(ValueError, match="relative") as caught:
        as_new_task("/" + "x" * 5000)

    assert len(str(caught.value)) < 300
