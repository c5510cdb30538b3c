"""The audit of the hosts' own logs in a short form, and its complaints.

``make politeness`` plays it with 200 hosts for a minute and more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.politeness.audit import audit
from tests.politeness.hosts import Host, Kind, Refusal
from tests.politeness.laws import Visit, violations

PART: Final = 0.15
SECONDS: Final = 5.0

SECOND: Final = Host("127.13.1.1", Kind("every second", 1, 1.0))
THREE: Final = Host("127.13.1.2", Kind("every second, three at once", 1, 1.0, most=3))
BURST: Final = Host("127.13.1.3", Kind("one a second, bursts of 3", 1, 1.0, burst=3, most=9))

BUSY: Final = Host("127.13.1.4", Kind("429", 1, 1.0, refuses=Refusal(429, 3)))
BUSY_THREE: Final = Host("127.13.1.5", Kind("429, three at once", 1, 1.0, most=3, refuses=Refusal(429, 9)))


def visits(*times: tuple[float, float], answer: float = 0.01, status: int = 200) -> list[Visit]:
    """Make visits from pairs of times: when the task was begun, when the request arrived."""
    return [Visit("127.13.1.1", arrived, arrived + answer, status, begun, "fetcher-0") for begun, arrived in times]


@pytest.mark.timeout(300)
def test_no_host_has_to_complain_whoever_is_killed(tmp_path: Path) -> None:
    audited = audit(tmp_path, PART, SECONDS)

    assert audited.problems == []
    assert [each for host in audited.hosts for each in audited.violations(host)] == []
    assert all(audited.visits[host.address] for host in audited.hosts)


def test_a_second_between_two_beginnings_is_enough_whenever_they_arrive() -> None:
    assert violations(SECOND, visits((10.0, 10.04), (11.0, 11.01))) == []


def test_less_than_the_delay_is_noticed() -> None:
    [said] = violations(SECOND, visits((10.0, 10.0), (10.999, 10.999)))
    assert "2 requests in 0.9990 s, which may take no less than 1 s" in said


def test_what_nobody_reported_may_have_been_begun_a_second_late() -> None:
    both = visits((10.9, 10.9), (11.0, 11.0))
    assert len(violations(SECOND, both)) == 1
    assert violations(SECOND, both, {both[0]}) == []


def test_several_at_once_may_be_begun_a_second_late_and_no_later() -> None:
    assert violations(THREE, visits((10.9, 10.9), (11.0, 11.0))) == []
    assert len(violations(THREE, visits((10.0, 10.0), (10.2, 10.2), (10.4, 10.4)))) == 1


def test_a_burst_is_no_violation_and_more_than_it_is() -> None:
    burst = [(10.0, 10.0)] * 3
    assert violations(BURST, visits(*burst)) == []
    assert len(violations(BURST, visits(*burst, (10.1, 10.1), (10.2, 10.2)))) == 1


def test_more_at_once_than_the_host_bears_is_noticed() -> None:
    [said] = violations(SECOND, visits((10.0, 10.0), (11.0, 11.0), answer=1.5))
    assert "2 at once" in said


def test_a_visit_within_retry_after_is_noticed_unless_nobody_reported_it() -> None:
    refused = visits((10.0, 10.0), status=429)
    assert violations(BUSY, [*refused, *visits((13.02, 13.02))]) == []
    assert len(violations(BUSY, [*refused, *visits((12.9, 12.9))])) == 1
    assert violations(BUSY, [*refused, *visits((12.9, 12.9))], set(refused)) == []


def test_what_was_under_way_may_arrive_after_a_refusal_for_two_seconds_or_so() -> None:
    refused = visits((10.0, 10.0), status=429)
    assert violations(BUSY_THREE, [*refused, *visits((12.2, 12.2))]) == []
    assert len(violations(BUSY_THREE, [*refused, *visits((12.3, 12.3))])) == 1
