"""``python -m taskqueue``: the ``taskqueue`` command of this very interpreter."""

import sys

from taskqueue.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
