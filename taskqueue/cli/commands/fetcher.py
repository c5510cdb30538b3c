"""``taskqueue fetcher``: have fetchers finish, before a machine goes down, and go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.display.json_values import without_envelope
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.fetchers import FetcherReply


@click.group()
def fetcher() -> None:
    """Show, drain and resume the fetchers of a name.

    The name is what a worker is given by `--name`, or a client by `name`, else host:pid; `taskqueue fetchers` shows it.
    Several may have the same one.

    \b
    Example:
      taskqueue fetcher drain web1
    """


@fetcher.command()
@click.argument("name")
@json_option
@daemon_options
def show(name: str, as_json: bool, url: str, timeout: float) -> None:
    """Show who has a name, and what they still hold.

    \b
    Example:
      taskqueue fetcher show web1
    """
    with Daemon(url, timeout).client() as client:
        reply = client.fetchers.show(name)
    if as_json:
        print_object(without_envelope(reply))
        return
    from taskqueue.cli.output import tables

    if reply.draining or not reply.found:
        say(_sentence(reply))
    if reply.found:
        tables.show_fetchers(reply.fetchers)


@fetcher.command()
@click.argument("name")
@daemon_options
def drain(name: str, url: str, timeout: float) -> None:
    """Give no new tasks to the fetchers of a name.

    It holds for those, too, that come later under this name, and over restarts, until `taskqueue fetcher resume`. What
    they have begun they finish; what only waits at them goes back, and others get it. A worker that runs with
    --exit-when-drained ends then. The name need not be connected now.

    \b
    Example:
      taskqueue fetcher drain web1
    """
    with Daemon(url, timeout).client() as client:
        say(_sentence(client.fetchers.drain(name)))


@fetcher.command()
@click.argument("name")
@daemon_options
def resume(name: str, url: str, timeout: float) -> None:
    """Give tasks to the fetchers of a name again.

    \b
    Example:
      taskqueue fetcher resume web1
    """
    with Daemon(url, timeout).client() as client:
        say(_sentence(client.fetchers.resume(name)))


def _sentence(reply: FetcherReply) -> str:
    """How the fetchers of a name stand."""
    who = "1 fetcher" if reply.found == 1 else f"{reply.found:,} fetchers"
    what = "1 task" if reply.holds == 1 else f"{reply.holds:,} tasks"
    if not reply.found:
        then = f"gets no tasks until: taskqueue fetcher resume {reply.fetcher}" if reply.draining else "gets tasks"
        return f"nobody of the name {reply.fetcher} is connected; who comes under it {then}"
    hung = f"; handlers whose lease is over hold {_places(reply.hung)}" if reply.hung else ""
    if reply.draining:
        held = f"still {'holds' if reply.found == 1 else 'hold'} {what}" if reply.holds else "nothing is held any more"
        return f"{reply.fetcher} is draining: {who}, {held}{hung}"
    return f"{reply.fetcher} gets tasks: {who}, {what} held{hung}"


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count:,} places"
