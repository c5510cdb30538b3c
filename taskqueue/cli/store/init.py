"""``taskqueue store init``: an empty store, or the SQL that makes one."""

from __future__ import annotations

import click

from taskqueue.cli.store.opening import database_of, make_if_absent, open_store, where
from taskqueue.cli.store.target import StoreTarget, store_options
from taskqueue.terminal.lines import say, say_lines


@click.command()
@click.option("--print-sql", is_flag=True, help="Make nothing; print what makes the schema and its tables.")
@store_options
def init(target: StoreTarget, print_sql: bool) -> None:
    """Make an empty store, where there is none. A daemon does so by itself when it starts; so this is for a database
    whose role for the daemon may not make tables.

    With --print-sql it connects to nothing and prints the statements that make the schema and its tables, and the
    rights that a daemon needs there. Running them again changes nothing.

    \b
    Example:
      taskqueue store init --store postgresql://owner@db.example/crawl
      taskqueue store init --print-sql -c taskqueue.toml | psql -U owner crawl
    """
    if print_sql:
        _print_sql(target)
    else:
        is_new = make_if_absent(target)
        if is_new:
            open_store(target).close()
        say(f"{where(target)}: {'made an empty store' if is_new else 'there is a store already; nothing was changed'}")


def _print_sql(target: StoreTarget) -> None:
    if not target.url:
        raise click.ClickException(
            f"{target.path}: the store is in a folder, which needs no SQL; name a database by store.url or --store"
        )
    database = database_of(target)
    from taskqueue.store.postgres.script import script

    say_lines(script(database.schema))
