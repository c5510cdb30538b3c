"""``taskqueue store``: look at a store, check, copy and move it."""

from __future__ import annotations

import os
from functools import partial

import click

from taskqueue.cli.store.backup_restore import backup, compact, restore
from taskqueue.cli.store.export_import import export, import_store
from taskqueue.cli.store.init import init
from taskqueue.cli.store.repair import repair
from taskqueue.cli.store.stats_check import check, stats


@click.group()
def store() -> None:
    """Look at a store, check, copy, move and repair it.

    These commands work on the store's folder or database, which --store or the config file names. stats, check, backup
    and export may be used at any time, while a daemon runs, too, and change nothing; compact, restore, import and
    repair need the daemon stopped. compact, restore and repair are for folders only.

    \b
    Example:
      taskqueue store stats -c taskqueue.toml
      taskqueue store check --store data/store
      taskqueue store backup /backups/monday
      taskqueue store init --store postgresql://db.example/crawl
    """
    # Stores, backups and exports have bodies, proxy passwords and session ids in them.
    click.get_current_context().call_on_close(partial(os.umask, os.umask(0o077)))


for command in (init, stats, check, compact, backup, restore, export, import_store, repair):
    store.add_command(command)
