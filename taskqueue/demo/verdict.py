"""Did the crawl go as it must? Claims about it, held against evidence from outside the scheduler where there is any.

1. *pages*: the site's own log of GETs is compared with its list of pages: each exactly once, no other. If the crawl was
   interrupted by a kill, what was under way may have been fetched again, so: each at least once, no other.
2. *tasks*: as many succeeded as there are pages, and the missing pages, no others, failed.
3. *404s*: the task of each missing page is ``failed`` and says why.
4. *pace*: no window of time had more tasks than burst + rate × t; see the module ``pace``.
5. *scheduler*: it finds all its own invariants true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from taskqueue.demo.pace_check import Window
from taskqueue.protocol.choices import LiveState
from taskqueue.protocol.views import Counts

EXAMPLES = 3
"""How many pages a failed claim names."""

EndState = tuple[str, str]
"""(state, error) of a task."""


class Claim(NamedTuple):
    """A claim about a crawl, whether it holds, and the numbers that show it."""

    name: str
    holds: bool
    text: str


class Evidence(NamedTuple):
    """What is known of a finished crawl.

    Attributes:
        expected: status by target of all pages of the site.
        fetched: how often each target was fetched.
        was_interrupted: a process was killed or stopped on the way.
        counts: tasks of the project.
        ended: end states of the tasks of missing pages, by target.
        window: the fastest one; None if there was none.
        problems: invariants that the scheduler finds broken.
    """

    expected: Mapping[str, int]
    fetched: Mapping[str, int]
    was_interrupted: bool
    counts: Counts
    ended: Mapping[str, EndState]
    window: Window | None
    problems: Sequence[str]


def missing(expected: Mapping[str, int]) -> list[str]:
    """Targets that are linked to but don't exist."""
    return [target for target, status in expected.items() if status >= 400]


def check_claims(evidence: Evidence) -> list[Claim]:
    """All claims about a crawl."""
    return [_pages(evidence), _tasks(evidence), _gone(evidence), _pace(evidence), _scheduler(evidence)]


def _pages(evidence: Evidence) -> Claim:
    wrong = list(_wrong_fetches(evidence))
    if wrong:
        return Claim("pages", False, "; ".join(wrong))
    return Claim("pages", True, f"all {len(evidence.expected)} fetched, each {_times(evidence)}: {_kinds(evidence)}")


def _times(evidence: Evidence) -> str:
    if again := sum(count - 1 for count in evidence.fetched.values()):
        return f"at least once, {again} again since it was interrupted"
    return "exactly once" + (", although it was interrupted" if evidence.was_interrupted else "")


def _wrong_fetches(evidence: Evidence) -> Iterator[str]:
    expected, fetched = evidence.expected, evidence.fetched
    if never := [target for target in expected if target not in fetched]:
        yield f"{len(never)} never fetched: {_some(never)}"
    if strange := [target for target in fetched if target not in expected]:
        yield f"{len(strange)} fetched that are none: {_some(strange)}"
    if not evidence.was_interrupted and (often := [target for target, count in fetched.items() if count > 1]):
        yield f"{len(often)} fetched more than once: {_some(often)}"


def _kinds(evidence: Evidence) -> str:
    statuses = sorted(evidence.expected.values())
    redirects = sum(300 <= status < 400 for status in statuses)
    others = Counter(status for status in statuses if not 300 <= status < 400)
    kinds = [f"{count} × {status}" for status, count in others.items()]
    return ", ".join([*kinds, f"{redirects} redirect{'' if redirects == 1 else 's'}"])


def _tasks(evidence: Evidence) -> Claim:
    counts, gone = evidence.counts, len(missing(evidence.expected))
    holds = (counts.success, counts.failed) == (len(evidence.expected) - gone, gone)
    live = sum(getattr(counts, state) for state in get_args(LiveState))
    text = f"{counts.success} success, {counts.failed} failed, {live} left"
    return Claim("tasks", holds and not live, text)


def _gone(evidence: Evidence) -> Claim:
    gone = missing(evidence.expected)
    wrong = [target for target in gone if not _says_why(evidence, target)]
    if wrong:
        target = wrong[0]
        state, error = evidence.ended.get(target, ("unknown", ""))
        return Claim("404s", False, f"{len(wrong)} not as they must be, such as {target}: {state}, {error!r}")
    if not gone:
        return Claim("404s", True, "none: every link leads to a page")
    return Claim("404s", True, f'{len(gone)} of {len(gone)} failed, with the reason: "{evidence.ended[gone[0]][1]}"')


def _says_why(evidence: Evidence, target: str) -> bool:
    state, error = evidence.ended.get(target, ("", ""))
    return state == "failed" and str(evidence.expected[target]) in error


def _pace(evidence: Evidence) -> Claim:
    window = evidence.window
    if window is None:
        return Claim("pace", True, "unlimited, or nothing was handed out")
    allowed = f"{window.burst:g} + {window.rate:g}/s × {window.seconds:.2f} s = {window.allowed:.1f}"
    verdict = "allowed are" if window.is_within else "too many: allowed are"
    text = f"fastest window: {window.tasks} tasks in {window.seconds:.2f} s, {verdict} {allowed}"
    return Claim("pace", window.is_within, text)


def _scheduler(evidence: Evidence) -> Claim:
    if evidence.problems:
        return Claim("scheduler", False, f"{len(evidence.problems)} invariants broken: {evidence.problems[0]}")
    return Claim("scheduler", True, "all its invariants hold")


def _some(targets: Sequence[str]) -> str:
    return ", ".join(targets[:EXAMPLES]) + (", …" if len(targets) > EXAMPLES else "")
