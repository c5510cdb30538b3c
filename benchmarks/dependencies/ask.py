"""What a system's module says, as one JSON object: ``python -m benchmarks.dependencies.ask SYSTEM FUNCTION``."""

from __future__ import annotations

import json
import sys

from benchmarks.dependencies.systems import loaded


def main() -> None:
    """Call the function that the command line names."""
    name, function = sys.argv[1:]
    print(json.dumps({"said": getattr(loaded(name), function)()}))


if __name__ == "__main__":
    main()
