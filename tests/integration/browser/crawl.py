"""Tasks for the dashboard: a typical crawl, and beside it everything hostile that can be pushed.

news       running, of a group with shop; tasks in every state, some of which failed
shop       has a flow of twelve tasks in five layers, partly run, and two cron entries, one with a graph that has run
recipes    paused by an operator
hostile    urls, taskids, errors, bodies, results, settings and fetchers with markup in them
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from taskqueue import Client, new_task

MARKUP: Final = "\"'><script>document.title='hacked';alert(1)</script><img src=http://203.0.113.1/x onerror=alert(2)>"
"""Markup that tries to run a script, end an attribute, and load from another host."""

TEXTS: Final = (
    MARKUP,
    "javascript:alert(3)",
    "</textarea></title></style></script><svg onload=alert(4)>",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "\u202eefas si siht\u202c \u2066\u200f",
    "a\x00b\x1b[31mred\x07\r\nSet-Cookie: stolen=1\r\n\r\n<h1>split</h1>",
    "&lt;script&gt;alert(5)&lt;/script&gt;&quot;&#39;",
    "long/" + "<b>w</b>x" * 227,
)
"""Texts that serve as url, error, body and result; the last has 2,048 characters."""

HOSTILE_NAME: Final = MARKUP[:64]
"""Markup of the longest length of a fetcher's name."""


@contextmanager
def crawl(client: Client) -> Iterator[None]:
    """Fill a daemon; fetchers stay connected until the end."""
    with ExitStack() as stack:
        names = ("crawler-1@web3", HOSTILE_NAME)
        fetchers = [stack.enter_context(Client(client.daemon_address, name=name)) for name in names]
        _projects(client)
        _news(client, fetchers[0])
        _shop(client, fetchers[0])
        _hostile(client, fetchers[1])
        client.projects.pause("recipes")
        yield


def _projects(client: Client) -> None:
    client.projects.set("news", {"rate": 500.0, "burst": 100.0, "group": "daily", "retry_delay": [3600]})
    client.projects.set("shop", {"rate": 200.0, "group": "daily", "cron": {"front": {"every": "1h"}}})
    client.projects.set("recipes", {"rate": 2.0})
    client.push_many("recipes", (f"https://recipes.example/{number}" for number in range(30)))


def _news(client: Client, fetcher: Client) -> None:
    client.push_many("news", (f"https://news.example/2026/11/{number:03d}.html" for number in range(120)))
    client.push_many("news", [new_task(f"https://news.example/later/{n}", exetime=4e9) for n in range(5)])
    for place, task in enumerate(fetcher.select(60, projects=["news"])):
        if place < 40:
            fetcher.done(task, result={"words": 400 + place})
        elif place < 52:
            fetcher.failed(task, f"HTTPError: 503 Service Unavailable (attempt {place})", retry=place < 46)


def _shop(client: Client, fetcher: Client) -> None:
    flow = client.flow("shop", "nightly")
    [front] = layer = [flow.task("https://shop.example/")]
    for depth in range(1, 5):
        layer = [flow.task(f"https://shop.example/{depth}/{place}", after=layer[:2]) for place in range(3)][
            : 5 - depth + 1
        ]
    flow.submit()
    for task in fetcher.select(1, projects=["shop"]):
        fetcher.done(task, result={"pages": 3})
    assert front
    graph: dict[str, Any] = {"load": {"url": "https://shop.example/load/{tick}"}, "sum": {"after": ["load"]}}
    client.cron.set("shop", "night", every="1s", overlap="both", tasks=graph)
    while sum(view.cron == "night" for view in client.flows.iter("shop")) < 2:
        client.projects.get("shop")
    client.cron.set("shop", "night", every="365d", tasks=graph)


def _hostile(client: Client, fetcher: Client) -> None:
    client.projects.set("hostile", {"rate": 1000.0, "burst": 1000.0, "fetch": dict.fromkeys(TEXTS[:3], TEXTS[1])})
    tasks = [new_task(text, taskid=f"{place}{text[:60]}", body={text: text}) for place, text in enumerate(TEXTS)]
    client.push_many("hostile", tasks)
    for place, task in enumerate(fetcher.select(len(TEXTS), projects=["hostile"])):
        if place % 2:
            fetcher.done(task, result={TEXTS[place]: TEXTS[place]})
        else:
            fetcher.failed(task, f"{TEXTS[place]}\nValueError: {TEXTS[place]}", retry=False)
    client.push_many("hostile", [new_task(text, taskid=f"held{place}") for place, text in enumerate(TEXTS)])
    fetcher.select(3, projects=["hostile"])
