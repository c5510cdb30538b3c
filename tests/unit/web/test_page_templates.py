"""Foreign texts in templates."""

from __future__ import annotations

import pytest

from taskqueue.web.page_templates import make_environment

LINK = '{% from "links.html" import outward_link %}{{ outward_link(url) }}'


@pytest.mark.parametrize("url", ["https://example.com/a?b=c&d=%20#e", "HTTP://example.com", "http://[::1]:80/ä"])
def test_a_url_of_the_web_becomes_a_link_that_tells_nothing_of_us(url: str) -> None:
    made = make_environment().from_string(LINK).render(url=url)

    assert f'href="{url.replace("&", "&amp;")}"' in made
    assert 'rel="noopener noreferrer nofollow"' in made


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "\x01javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "/projects",
        "http:evil",
        'https://a"onmouseover=alert(1)',
        "https://a b",
        "https://a\nb",
        "https://a\\b",
        "https://a<b>",
        "https://a\u202eb",
        "https://a\u200bb",
        "https://",
        "",
        "https://" + "a" * 10_000,
    ],
    ids=repr,
)
def test_what_a_browser_could_run_or_misread_becomes_no_link(url: str) -> None:
    made = make_environment().from_string(LINK).render(url=url)

    assert "<a" not in made
    assert "<script" not in made


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("a\u202eb", "a\\u202eb"),
        ("a\x1b[31mb", "a\\u001b[31mb"),
        ("a\nb", "a\nb"),
        ("äöü 漢字 🙂", "äöü 漢字 🙂"),
    ],
)
def test_a_text_of_somebody_else_is_escaped_and_visible(text: str, shown: str) -> None:
    template = make_environment().from_string("{{ text }}|{{ text | upper | lower }}|{{ [text] | join }}|{{ 7 }}")

    assert template.render(text=text).split("|") == [shown, shown.replace("\\u001b", "\\u001b"), shown, "7"]


def test_nothing_in_a_template_is_put_out_unescaped() -> None:
    environment = make_environment()
    assert environment.loader is not None

    for name in environment.list_templates():
        source = environment.loader.get_source(environment, name)[0]
        for unsafe in ("| safe", "|safe", "autoescape", "style=", "javascript:", " onclick", "Markup"):
            assert unsafe not in source, (name, unsafe)
