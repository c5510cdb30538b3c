"""The limit: how much of what a bare socket and a bare store can do is left when something is decided in between.

    python -m benchmarks.limit                        100,000 tasks a round, 3 rounds of each

Beside the daemon runs a process that moves the same bytes and decides nothing: it receives the same frames over the
same kind of socket, puts the same keys and values into the same kind of RocksDB, as many to a batch, syncs them in the
same way, and sends frames of the same size (``benchmarks.peers.bare``). What it writes and sends was recorded from the
real core.
"""

from __future__ import annotations

from typing import Final

from benchmarks.contest import Contender, Load, Pin, run
from benchmarks.harness import Column, Plot, Ratio, Report, alternate, parser
from benchmarks.peers import bare

BATCH: Final = 256
BODY: Final = 300

DURABILITIES: Final = ("commit", "interval")


def contenders(load: Load) -> list[Contender]:
    """The bare one and ours, with each durability."""
    return [
        contender
        for durability in DURABILITIES
        for contender in (
            Contender(f"bare, {durability}", "bare", bare.setting(durability, load)),
            Contender(f"taskqueue, {durability}", "ours", durability),
        )
    ]


def main() -> None:
    """Run the rounds, print each, and the table."""
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=100_000, help="in each round")
    made.add_argument("--pin", default="0:1", help="cores of the server : of producer and fetcher; empty: nowhere")
    options = made.parse_args()
    load = Load(options.tasks, BATCH, BODY)
    report = Report(
        "limit",
        "Lifecycles a second, with scheduling and without",
        "python -m benchmarks.limit",
        [Column("rate", "lifecycles", "/s"), Column("cpu", "CPU a lifecycle", "µs", 1)],
        ratios=[
            Ratio(f"our share, {durability}", "rate", f"taskqueue, {durability}", f"bare, {durability}", "≥ 0.5")
            for durability in DURABILITIES
        ],
        plot=Plot(columns=("rate", "cpu")),
    )
    for number, contender in alternate(options.rounds, contenders(load)):
        took = run(contender, load, Pin.of(options.pin))
        print(f"round {number}  {contender.label:<20} {took.rate:>9,.0f} lifecycles/s  CPU {took.cpu_us:6.1f} µs")
        report.add(contender.label, {"rate": took.rate, "cpu": took.cpu_us})
    report.finish(options)


if __name__ == "__main__":
    main()
