"""The options that name a store, and the progress bar of commands that work on one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NamedTuple, TypeVar

import click

T = TypeVar("T")

Progress = Callable[[int], object]


class StoreTarget(NamedTuple):
    """A store, as options and the daemon's config name it.

    Attributes:
        path: its folder, unless ``url`` says that it lies in a database.
        cache_bytes, message_bytes: the cache, and the longest message, of its daemon.
        url, schema, timeout: as in the config; the url may contain a password, and name another schema.
    """

    path: str
    cache_bytes: int
    message_bytes: int
    url: str
    schema: str
    timeout: float


def store_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add the options --config and --store to a command, which gets the ``target`` that they name."""

    @click.option(
        "-c", "--config", metavar="FILE", type=click.Path(), envvar="TASKQUEUE_CONFIG", help="The daemon's config file."
    )
    @click.option(
        "--store",
        metavar="DIR|URL",
        type=click.Path(),
        help="The store's folder, or postgresql:// url (?schema=NAME).",
    )
    @wraps(command)
    def with_place(*args: object, config: str | None, store: str | None, **options: object) -> T:
        return command(*args, target=_target(config, store), **options)

    return with_place


def named_store(place: str) -> StoreTarget:
    """The store in a folder or database, with all else as the environment says it."""
    return _target(os.environ.get("TASKQUEUE_CONFIG"), place)


def _target(config: str | None, store: str | None) -> StoreTarget:
    from taskqueue.server.config.config_file import load
    from taskqueue.server.config.environment import with_environment

    found = with_environment(load(config), os.environ)
    said = found.store
    path, url = said.path, said.url
    if store:
        path, url = (path, store) if names_database(store) else (store, "")
    return StoreTarget(path, said.cache, found.server.max_message, url, said.schema, said.timeout)


def names_database(place: str) -> bool:
    """Whether this is the url of a database, and no folder or file."""
    from taskqueue.server.config.config_file import DATABASE_SCHEMES

    return place.startswith(DATABASE_SCHEMES)


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Iterator[Progress]:
    """Show a progress bar if stderr is a terminal; yields a function to call with the number done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from taskqueue.terminal.screen import Screen

    columns = (TextColumn(what), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    with Bar(*columns, console=Screen(err=True), transient=True) as bar:
        row = bar.add_task("", total=total)
        yield lambda done: bar.update(row, completed=done, total=None if total is None else max(total, done))
