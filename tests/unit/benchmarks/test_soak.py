"""The soak: its ledger finds what was lost, and its trends what grows."""

from __future__ import annotations

from benchmarks.soak.__main__ import FIGURES, Sample, reported, slope, table, trends
from benchmarks.soak.crew import Ledger, number_of, taskid_of, zeros

TASKS = 10


def ledger() -> Ledger:
    """Ledger of tasks each of which was pushed, dispatched, reported and done once."""
    made = Ledger(100, 1)
    made.size = TASKS
    made.pushed[:TASKS] = b"\1" * TASKS
    for taskid in map(taskid_of, range(TASKS)):
        made.count_dispatched([taskid])
        made.note_reported([taskid])
        made.count_done(0, [taskid])
    return made


def samples(growth: float, minutes: int = 60) -> list[Sample]:
    """Samples of each minute, whose figures all grow by so much of themselves in an hour."""
    return [
        Sample(float(minute), 0, dict.fromkeys(FIGURES, 100 * (1 + growth * minute / 60))) for minute in range(minutes)
    ]


def test_a_number_is_found_again_from_its_taskid() -> None:
    numbers = [0, 1, 2, 12_345_678, 1 << 40]

    assert [number_of(taskid_of(number)) for number in numbers] == numbers
    assert len({taskid_of(number)[0] for number in range(100)}) > 10


def test_a_ledger_of_tasks_that_were_done_once_has_neither_losses_nor_doubles() -> None:
    found = ledger().found()

    assert (found.pushed, found.done) == (TASKS, TASKS)
    assert (found.lost, found.doubled, found.again, found.unsure) == ([], 0, 0, 0)


def test_a_push_without_a_success_is_lost_unless_a_success_was_reported() -> None:
    it = ledger()
    for number in (3, 7):
        it.done[number] = 0
    it.reported[3] = 0

    assert it.found().lost == [taskid_of(3)]
    assert it.found().unsure == 1


def test_a_push_without_an_answer_is_not_lost() -> None:
    it = ledger()
    it.done[3] = it.reported[3] = it.pushed[3] = 0

    assert it.found().lost == []


def test_a_second_success_and_a_second_dispatch_are_counted() -> None:
    it = ledger()
    it.count_done(0, [taskid_of(4)])
    it.count_dispatched([taskid_of(4), taskid_of(5)])

    assert (it.found().doubled, it.found().again) == (1, 2)
    assert it.total_done() == TASKS + 1


def test_zeros_beyond_the_size_do_not_count() -> None:
    it = ledger()
    it.done[0] = it.done[9] = 0

    assert list(zeros(it.done, TASKS)) == [0, 9]


def test_one_leap_does_not_make_a_slope() -> None:
    points = [(float(minute), 5.0) for minute in range(10)]

    assert slope([*points, (10.0, 500.0)]) == 0
    assert slope([(minute, value + 2 * minute) for minute, value in points]) == 2
    assert slope(points[:1]) == 0


def test_what_stays_is_flat_and_what_doubles_in_an_hour_is_not() -> None:
    flat, grown = trends(samples(0.0), 60), trends(samples(1.0), 60)

    assert all(each.is_flat for each in flat)
    assert [each.column.key for each in grown if each.is_flat] == ["rate"]
    assert "**not flat**" not in table(flat, judged=True)
    assert table(grown, judged=True).count("**not flat**") == len(FIGURES) - 1
    assert "too short" in table(grown, judged=False)


def test_a_rate_that_falls_is_not_flat() -> None:
    (rate,) = (each for each in trends(samples(-0.5), 60) if each.column.key == "rate")

    assert not rate.is_flat


def test_figures_of_the_process_are_those_of_its_last_life() -> None:
    young = [Sample(each.minute, 0, dict.fromkeys(FIGURES, 1.0)) for each in samples(0.0)[:30]]
    old = [Sample(each.minute, 1, dict.fromkeys(FIGURES, 100.0)) for each in samples(0.0)[30:]]

    found = {each.column.key: each.an_hour for each in trends(young + old, 60)}

    assert found["rss"] == 0
    assert found["store"] > 0


def test_samples_make_fifteen_rows_by_minute() -> None:
    rows = reported(samples(0.0), 60).result.rows

    assert [row.label for row in rows] == [str(minute) for minute in range(4, 61, 4)]
