"""Producer or fetcher process: prints one JSON object at its end (see ``benchmarks.contest``).

python -m benchmarks.peers.role PEER produce|fetch ADDRESS TASKS BATCH BODY
"""

from __future__ import annotations

import json
import sys

from benchmarks.contest import Load, peer_of


def main() -> None:
    """Run the role that the command line names."""
    peer, role, address, *numbers = sys.argv[1:]
    module, load = peer_of(peer), Load(*map(int, numbers))
    act = {"produce": module.produce, "fetch": module.fetch}[role]
    print(json.dumps(act(address, load)))


if __name__ == "__main__":
    main()
