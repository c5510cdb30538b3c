"""Print the lowest versions that setup.cfg allows, as constraints for pip, of requirements to run and to test."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

SETUP = Path(__file__).parent.parent / "setup.cfg"
BOUND = re.compile(r"([\w-]+)(?:\[[\w,]+\])? >= ([\d.]+)")


def lowest() -> list[str]:
    """Return lines such as "click==8.2", in the order of setup.cfg.

    Raises:
        ValueError: a requirement has no lower bound.
    """
    options = ConfigParser()
    options.read(SETUP)
    required = options["options"]["install_requires"] + options["options.extras_require"]["test"]
    lines = [line for line in required.splitlines() if line and not line.startswith("#")]
    bounds = [BOUND.fullmatch(line) for line in lines]
    if None in bounds:
        raise ValueError(f"{SETUP.name}: {lines[bounds.index(None)]} has no lower bound")
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    print(*lowest(), sep="\n")
