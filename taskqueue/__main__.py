"""``python -m taskqueue``: the ``taskqueue`` command in this interpreter."""

import sys

from taskqueue.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
