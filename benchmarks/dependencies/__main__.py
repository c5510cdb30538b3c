"""Tasks that wait for others: taskqueue beside Celery's chords, RQ's depends_on, Luigi and Airflow on one machine.

    python -m benchmarks.dependencies                              3 rounds of each
    python -m benchmarks.dependencies --only taskqueue --scenes rate,cycle

Two tables. The first: tasks a second of joins (two parents and a child that waits for both) beside as many tasks
without edges, and one parent with many children: how long they take to submit, how long to release once the parent has
ended, and the largest processes. The second: of the children of joins, how many ran exactly once and how many more
often, if both parents end at once, and if all workers or all servers are killed in the middle and started again; the
rest never ran. Below it is what each says to a cycle.

Each system runs 16 tasks at once, in two settings: as its manual begins, and set up to survive (*safe*; see each
module). The star and the cycle are the same in both, so they are measured once, in the first round.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.dependencies import scenes
from benchmarks.dependencies.systems import CONTENDERS, OURS, Contender
from benchmarks.harness import Column, Plot, Ratio, Report, alternate, parser

FATES: Final = ("together", "workers", "servers")
SCENES: Final = ("rate", "star", *FATES, "cycle")
CRASH_JOINS: Final = 100
FEWEST_JOINS: Final = 10
MB: Final = 1e6


def main() -> None:
    """Run the rounds, print each, and the tables."""
    options = parse()
    chosen = [contender for contender in CONTENDERS if contender.label.startswith(options.only or "")]
    figures, faults = _figures(options.children), _faults()
    for number, contender in alternate(options.rounds, chosen):
        if why := contender.unavailable():
            figures.missing(contender.label, why)
            faults.missing(contender.label, why)
            continue
        joins = max(FEWEST_JOINS, int(options.joins * contender.part))
        for scene in options.scenes:
            if scene == "rate" and contender.rated:
                add(figures, contender, partial(rates, contender, joins))
            elif scene in FATES:
                add(faults, contender, partial(fates, scene, contender, min(joins, CRASH_JOINS)))
            elif scene == "star" and contender.safe and number == 1:
                add(figures, contender, partial(star, contender, options.children))
            elif scene == "cycle" and contender.safe and number == 1:
                faults.note(f"A cycle, {contender.system}: {scenes.cycle(contender)}.")
    for report, shown in ((figures, ("rate", "star")), (faults, (*FATES, "cycle"))):
        if not set(shown).isdisjoint(options.scenes):
            report.finish(options)


def parse() -> argparse.Namespace:
    """The command line."""
    made = parser(__doc__)
    made.add_argument("--joins", type=int, default=10_000, help="of ours; the slower ones do a part of them")
    made.add_argument("--children", type=int, default=100_000, help="of the star")
    made.add_argument("--only", help="contenders whose name begins so")
    made.add_argument("--scenes", type=lambda text: text.split(","), default=SCENES, help=",".join(SCENES))
    options: argparse.Namespace = made.parse_args()
    return options


def rates(contender: Contender, joins: int) -> dict[str, float]:
    """Tasks a second with edges and without."""
    with_edges, without = scenes.rate(contender, "joins", joins), scenes.rate(contender, "plain", joins)
    return {"joins": with_edges, "plain": without, "share": 100 * with_edges / without}


def star(contender: Contender, children: int) -> dict[str, float]:
    """Seconds and megabytes of one parent with many children."""
    seen = scenes.star(contender, children)
    sizes = {"server": seen.server_bytes, "worker": seen.worker_bytes, "client": seen.client_bytes}
    seconds = {"submit": seen.submit_seconds, "release": seen.release_seconds}
    return seconds | {name: size / MB for name, size in sizes.items() if size}


def fates(scene: str, contender: Contender, joins: int) -> dict[str, float]:
    """What became of the children, in percent, and the longest that one waited.

    Raises:
        SystemExit: one ran before its parents.
    """
    if scene == "together":
        outcome = scenes.together(contender, joins)
    else:
        outcome = scenes.crash(contender, joins, "workers" if scene == "workers" else "servers")
    if outcome.early:
        raise SystemExit(f"{contender.label}: {outcome.early} children ran before their parents")
    once, again = (100 * count / joins for count in (outcome.once, outcome.again))
    return {f"{scene}-once": once, f"{scene}-again": again, f"{scene}-latest": outcome.latest}


def add(report: Report, contender: Contender, measure: Callable[[], dict[str, float]]) -> None:
    """Measure, add it to the report, and say so; why, if there is nothing to add."""
    try:
        figures = measure()
    except scenes.Lost as lost:
        report.note(f"Without a figure, {contender.label}: {lost}.")
        return
    report.add(contender.label, figures)
    print(f"{contender.label:<16}", "  ".join(f"{key} {value:,.1f}" for key, value in figures.items()), flush=True)


def _figures(children: int) -> Report:
    safe = [contender.label for contender in CONTENDERS if contender.safe and contender.label != OURS]
    return Report(
        "dependencies",
        "Tasks that wait for others, tasks a second",
        "python -m benchmarks.dependencies",
        [
            Column("joins", "joins", "tasks/s", 1),
            Column("plain", "without edges", "tasks/s", 1),
            Column("share", "share", "%"),
            Column("submit", f"{children:,} children: submitted", "s", 1),
            Column("release", "released", "s", 1),
            Column("server", "largest server", "MB"),
            Column("worker", "largest worker", "MB"),
            Column("client", "client", "MB"),
        ],
        ratios=[Ratio(f"joins, taskqueue against {label}", "joins", OURS, label) for label in safe],
        plot=Plot(columns=("joins", "plain")),
    )


def _faults() -> Report:
    titles = {"together": "parents at once", "workers": "workers killed", "servers": "servers killed"}
    columns = [
        Column(f"{scene}-{key}", f"{title}: {label}", unit, digits)
        for scene, title in titles.items()
        for key, label, unit, digits in (
            ("once", "once", "%", 0), ("again", "more often", "%", 0), ("latest", "longest wait", "s", 1),
        )
    ]  # fmt: skip
    plot = Plot(columns=tuple(f"{scene}-once" for scene in titles))
    title = "Tasks that wait for others, children that ran once"
    return Report("dependencies-faults", title, "python -m benchmarks.dependencies", columns, plot=plot)


if __name__ == "__main__":
    main()
