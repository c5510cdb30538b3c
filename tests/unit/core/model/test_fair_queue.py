"""A waiting line beside a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.core.model.fair_queue import SWEEP_AT_LEAST, WaitingLine

NAMES = list("abcdef")
STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "leave", "serve", "again", "last", "skip"]), st.sampled_from(NAMES))
)


def order(line: WaitingLine[str, str]) -> list[str]:
    """Serve all members, and return their order."""
    served = []
    while line.front:
        served.append(next(iter(line.front.values())))
        line.serve(again=False)
    return served


def made(**priorities: int) -> WaitingLine[str, str]:
    line: WaitingLine[str, str] = WaitingLine()
    for name, priority in priorities.items():
        line.enter(name, name, priority)
    return line


@given(priorities=st.lists(st.integers(-2, 2), min_size=6, max_size=6), steps=STEPS)
def test_it_is_a_list_sorted_by_priority_and_arrival(priorities: list[int], steps: list[tuple[str, str]]) -> None:
    of = dict(zip(NAMES, priorities, strict=True))
    line: WaitingLine[str, str] = WaitingLine()
    model: list[str] = []

    for step, name in steps:
        if step == "enter" and name not in model:
            line.enter(name, name, of[name])
            model.append(name)
        elif step == "enter":
            line.enter(name, name, of[name])
        elif step == "leave":
            line.leave(name, of[name])
            model = [other for other in model if other != name]
        elif step == "last" and name in model:
            line.go_last(name, of[name])
            model = [other for other in model if other != name] + [name]
        elif step in ("serve", "again") and model:
            first = min(model, key=lambda other: -of[other])
            line.serve(again=step == "again")
            model = [other for other in model if other != first] + [first] * (step == "again")
        elif step == "skip" and line.front:
            line.skip()
            assert list(line.front) == _front([other for other in model if of[other] < _best(model, of)], of)
            line.restore()
        assert list(line.front) == _front(model, of)
        assert line.has_others == (len({of[other] for other in model}) > 1)

    assert order(line) == sorted(model, key=lambda other: -of[other])


def _best(model: list[str], of: dict[str, int]) -> int:
    return max(of[name] for name in model)


def _front(model: list[str], of: dict[str, int]) -> list[str]:
    return [name for name in model if of[name] == _best(model, of)]


def test_all_who_were_skipped_wait_again_where_they_did() -> None:
    line = made(a=0, b=1, c=2, d=2)
    line.skip()
    line.skip()
    assert list(line.front) == ["a"]

    line.skip()
    assert not line.front
    line.restore()
    assert order(line) == ["c", "d", "b", "a"]


def test_those_behind_who_were_served_meanwhile_stay_behind_those_who_were_skipped() -> None:
    line = made(a=0, b=0, c=2)
    line.skip()
    line.serve(again=True)
    line.restore()

    assert order(line) == ["c", "b", "a"]


def test_priorities_that_nobody_has_any_more_do_not_fill_the_memory() -> None:
    line = made(best=10**6)
    for priority in range(10_000):
        line.enter("other", "other", priority)
        line.leave("other", priority)

    assert len(line._heap) <= SWEEP_AT_LEAST + 2
    assert order(line) == ["best"]
