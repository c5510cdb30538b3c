"""Play seeds of the simulation from the command line.

.venv/bin/python -m tests.simulation --seed 17               one seed; prints a summary, or the broken law
.venv/bin/python -m tests.simulation --seed 17 --trace       with the whole trace
.venv/bin/python -m tests.simulation --seed 17 --store rocks
.venv/bin/python -m tests.simulation --seed 17 --crewed      with fetchers that have names and priorities
.venv/bin/python -m tests.simulation --seed 17 --graphs      with dependent tasks, flows and reruns
.venv/bin/python -m tests.simulation --seed 17 --slotted      with projects divided into slots
.venv/bin/python -m tests.simulation --seed 0 --count 1000   many seeds; prints those that fail
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from time import perf_counter
from typing import get_args

from tests.simulation.play import Play, Played, report
from tests.simulation.storage import StoreName, storage_of
from tests.simulation.world import Violation


def main() -> int:
    """Play the seeds; return 1 if a law is broken."""
    options = _options()
    seeds = range(options.seed, options.seed + options.count)
    failed = [seed for seed in seeds if not _play(seed, options)]
    if options.count > 1:
        print(f"{len(failed)} of {options.count} seeds failed: {' '.join(map(str, failed)) or 'none'}")
    return 1 if failed else 0


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.simulation", description="Play seeds of the simulation.")
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of many")
    parser.add_argument("--count", type=int, default=1, help="how many seeds to play")
    parser.add_argument("--store", choices=get_args(StoreName), default="memory")
    parser.add_argument("--lossless", action="store_true", help="power cuts lose nothing, as with other stores")
    parser.add_argument("--crewed", action="store_true", help="with fetchers that have names and priorities")
    parser.add_argument("--graphs", action="store_true", help="with tasks that wait for others")
    parser.add_argument("--slotted", action="store_true", help="with projects divided into slots")
    parser.add_argument("--restored", action="store_true", help="with a project that is imported again and again")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--digest", action="store_true", help="print the digest of the trace and nothing else")
    return parser.parse_args()


def _play(seed: int, options: Namespace) -> bool:
    with storage_of(options.store) as disk:
        began = perf_counter()
        one = Play(
            seed,
            disk,
            forgetful=options.store == "memory" and not options.lossless,
            crewed=options.crewed,
            graphs=options.graphs,
            slotted=options.slotted,
            restored=options.restored,
        )
        try:
            played = one.run()
        except Exception as error:
            print(report(one, error, options.store))
            if not isinstance(error, Violation):
                raise
            return False
        finally:
            if options.trace:
                print("\n".join(one.world.trace.lines), file=sys.stderr)
        print(played.digest if options.digest else _tell(seed, played, perf_counter() - began))
        return True


def _tell(seed: int, played: Played, seconds: float) -> str:
    return (
        f"seed {seed}: {played.digest}  {played.turns} turns ({played.crowded:.0%} crowded), "
        f"{played.handed} hand-outs of {played.accepted} tasks, {played.crashes} crashes, "
        f"{played.seconds:.0f} s in {seconds:.2f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
