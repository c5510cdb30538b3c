"""Runs many commands, one after the other in one process: a JSON list of lists of arguments is its own argument.

Each is announced on both streams, so that what it wrote can be told from what the others did.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from taskqueue.cli.main import main

for number, arguments in enumerate(json.loads(sys.argv[1])):
    for stream in (sys.stdout, sys.stderr):
        print(f"### {number}", file=stream, flush=True)
    with suppress(SystemExit):
        main(arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
