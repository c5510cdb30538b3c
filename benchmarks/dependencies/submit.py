"""A process that hands in one graph, and prints when it began and ended, and what the system said to it.

python -m benchmarks.dependencies.submit SYSTEM KIND COUNT
"""

from __future__ import annotations

import json
import resource
import sys
import time

from benchmarks.dependencies.systems import loaded


def main() -> None:
    """Submit what the command line names."""
    name, kind, count = sys.argv[1:]
    system = loaded(name)
    began_at = time.time()
    try:
        said = system.submit(kind, int(count))  # type: ignore[arg-type]
    except Exception as error:
        said = f"refused: {type(error).__name__}: {error}"
    ended_at, most = time.time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"began_at": began_at, "ended_at": ended_at, "said": said, "peak_bytes": most}))


if __name__ == "__main__":
    main()
