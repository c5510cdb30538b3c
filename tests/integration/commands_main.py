"""Run many commands one after the other in one process: its argument is a JSON list of argument lists.

Each is announced on both streams, so that its output can be told apart.
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
