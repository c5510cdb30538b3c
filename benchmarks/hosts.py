"""What it takes to name the slot of a task, beside ``urlsplit``: µs for each of many urls, no two of one host.

    python -m benchmarks.hosts

Medians of REPEATS rounds, the loop around the call included. ``urlsplit`` is asked for what a slot's name has of a url:
host and port. There are more urls than it remembers, and more hosts than domains are remembered of.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from taskqueue.calendar import Calendar
from taskqueue.core.settings.settings import merge
from taskqueue.core.settings.slot_choice import PLAIN_CHOICE
from taskqueue.core.settings.slot_pace import pace_of
from taskqueue.core.tasks.slot_names import host_of
from taskqueue.registered_domains import domain_of

COUNT: Final = 20_000
REPEATS: Final = 9
FORMS: Final = {
    "an ordinary url": "https://www.news-{}.example.co.uk/2026/11/22/a-headline-of-some-words.html?id=123456&ref=home",
    "with a port": "http://127.0.0.1:{}/page/17",
    "with capitals": "http://WWW.News-{}.Example.co.uk/a",
    "with other letters": "https://www.nachrichten-für-{}.example.co.uk/a",
    "with a user and a port": "https://ann:secret@news-{}.example.co.uk:8443/a",
    "an IPv6 address": "http://[2001:db8::{:x}]:8080/a",
    "without a host": "data:,{}",
}


def main() -> None:
    """Measure and print a table."""
    ascii_host = Calendar().ascii_host
    print(f"{'µs':>24} {'host_of':>9} {'urlsplit':>9}")
    for label, form in FORMS.items():
        urls = [form.format(1024 + number) for number in range(COUNT)]
        found, split = (median_us(of, urls) for of in (lambda url: host_of(url, ascii_host), split_host))
        print(f"{label:>24} {found:9.2f} {split:9.2f}")
    hosts = [host_of(FORMS["an ordinary url"].format(number), ascii_host) for number in range(COUNT)]
    print(f"{'domain of a new host':>24} {median_us(domain_of, hosts):9.2f}")
    print(f"{'domain of a known one':>24} {median_us(domain_of, hosts[:1] * COUNT):9.2f}")
    for count in (0, 1, 100):
        settings = merge({}, {"slot": "host", "slots": {f"*.shop-{each}.org": {"delay": 5} for each in range(count)}})
        label = f"pace, {count} patterns"
        print(f"{label:>24} {median_us(lambda host: pace_of(settings, host, PLAIN_CHOICE), hosts):9.2f}")  # noqa: B023


def split_host(url: str) -> tuple[str | None, int | None]:
    """Host and port of a url."""
    split = urlsplit(url)
    return split.hostname, split.port


def median_us(act: Callable[[str], object], texts: Sequence[str]) -> float:
    """Microseconds for each of the texts."""
    rounds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for text in texts:
            act(text)
        rounds.append((time.perf_counter() - start) / len(texts) * 1e6)
    return statistics.median(rounds)


if __name__ == "__main__":
    main()
