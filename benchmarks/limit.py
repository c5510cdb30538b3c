"""The limit: the part of what a bare socket and a bare store can do that is left when the daemon decides in between.

    python -m benchmarks.limit                        100,000 tasks a round, 3 rounds of each
    python -m benchmarks.limit --compiled VENV --before VENV

Beside the daemon runs a process that moves the same bytes and decides nothing: it receives the same frames over the
same kind of socket, puts the same keys and values into the same kind of RocksDB, in batches of the same size, syncs
them in the same way, and sends frames of the same size (``benchmarks.peers.bare``). It decodes, looks up, decides,
packs and encodes nothing. What it writes and sends was recorded from the real core before the clock starts. An
earlier build that is named by ``--before`` is recorded and played back as well: a build that writes less has a higher
limit of its own.
"""

from __future__ import annotations

from typing import Final

from benchmarks.builds import BEFORE, COMPILED, Build, add_options, builds
from benchmarks.contest import Contender, Load, Pin, run
from benchmarks.harness import Column, Plot, Ratio, Report, alternate, parser
from benchmarks.peers import bare, ours

BATCH: Final = 256
BODY: Final = 300

DURABILITIES: Final = ("commit", "interval")


def contenders(load: Load, measured: list[Build]) -> list[Contender]:
    """Return our rows by durability and build, and the bare ones; a compiled build writes the same as its source."""
    found = []
    for durability in DURABILITIES:
        for build in measured:
            if build.label != COMPILED:
                row = build.of(f"bare, {durability}")
                found.append(Contender(row, "bare", bare.setting(durability, load, build)))
            found.append(Contender(build.of(f"taskqueue, {durability}"), "ours", ours.setting(durability, build)))
    return found


def ratios(rows: list[str]) -> list[Ratio]:
    """Return the ratios of our rows to the bare ones."""
    shares = [
        Ratio(f"{row.removeprefix('taskqueue, ')}: share of {limit}", "rate", row, limit, "≥ 0.5")
        for row in rows
        for limit in rows
        for durability in DURABILITIES
        if row.startswith(f"taskqueue, {durability}") and limit.startswith(f"bare, {durability}")
    ]
    return [share for share in shares if not share.over.endswith(BEFORE) or share.under.endswith(BEFORE)]


def main() -> None:
    """Run the rounds, print each, and the table."""
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=100_000, help="tasks in each round")
    made.add_argument("--pin", default="0:1", help="cores of the server, colon, of the clients; empty: any")
    add_options(made)
    options = made.parse_args()
    load = Load(options.tasks, BATCH, BODY)
    measured = contenders(load, builds(options))
    report = Report(
        "limit",
        "Lifecycles a second, with scheduling and without",
        "python -m benchmarks.limit",
        [Column("rate", "lifecycles", "/s"), Column("cpu", "CPU a lifecycle", "µs", 1)],
        ratios=ratios([contender.label for contender in measured]),
        plot=Plot(columns=("rate", "cpu")),
    )
    for number, contender in alternate(options.rounds, measured):
        took = run(contender, load, Pin.of(options.pin))
        print(f"round {number}  {contender.label:<28} {took.rate:>9,.0f} lifecycles/s  CPU {took.cpu_us:6.1f} µs")
        report.add(contender.label, {"rate": took.rate, "cpu": took.cpu_us})
    report.finish(options)


if __name__ == "__main__":
    main()
