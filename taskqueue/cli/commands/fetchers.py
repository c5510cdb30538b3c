"""``taskqueue fetcher``: list fetchers, find stuck ones, drain and resume them.

A fetcher is drained before its machine goes down: it finishes what it holds, and gets no more until it is resumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.input.daemon import Daemon, all_fetchers, check_group, daemon_options
from taskqueue.cli.input.names import group_option, projects_argument
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.json_values import without_envelope
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.choices import FetcherSort
    from taskqueue.protocol.fetchers import FetcherName


SORTS: Final = ("name", "holds", "capacity", "hung", "oldest", "done", "failed", "silent")


@click.group()
def fetcher() -> None:
    """List, show, drain and resume fetchers.

    A fetcher is named by a worker's `--name` or a client's `name`, else host:pid. Several may share a name.

    \b
    Example:
      taskqueue fetcher list
      taskqueue fetcher drain web1
    """


@fetcher.command("list")
@projects_argument
@group_option
@click.option("--filter", "part", metavar="TEXT", default="", help="Part of the name or address of the fetchers.")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Order of the rows.")
@click.option("--limit", type=click.IntRange(min=1), help="Number of fetchers, at most.")
@json_lines_option
@daemon_options
def list_fetchers(
    projects: tuple[str, ...],
    group: str | None,
    part: str,
    sort: FetcherSort,
    limit: int | None,
    as_json: bool,
    daemon: Daemon,
) -> None:
    """List fetchers and what they hold.

    A row shows whether the fetcher is draining, the tasks it holds and its capacity, its hung places, the age of its
    oldest task, outcomes of its attempts since the daemon's start, how long it has been silent, its priority, address
    and projects. With PROJECT, only fetchers that may take its tasks are listed.

    A fetcher with an old task is stuck, or at a slow site; `taskqueue task list --state processing` shows the tasks. A
    place hangs while its handler runs although the lease has ended; lines below the table name the tasks.
    `--sort oldest` begins with the oldest task, `hung` with the place that has hung longest, `silent` with the longest
    silence; other numbers come largest first.

    \b
    Example:
      taskqueue fetcher list --sort oldest --limit 10
      taskqueue fetcher list news --json | jq 'select(.failed > .done) | .name'
    """
    with daemon.client() as client:
        if group:
            check_group(group, client.projects.list(limit=1, group=group).items)
        found = all_fetchers(client, projects, group or "", part=part, sort=sort, limit=limit)
        if as_json:
            print_lines(found)
            return
        from taskqueue.cli.output import fetcher_tables

        fetcher_tables.show_fetchers(list(found))
        away = [] if projects or group or part else client.fetchers.list(limit=1).away
        if away:
            say(f"drained, and not connected: {', '.join(away)}")


@fetcher.command()
@click.argument("name")
@json_option
@daemon_options
def show(name: str, as_json: bool, daemon: Daemon) -> None:
    """Show the fetchers of a name.

    \b
    Example:
      taskqueue fetcher show web1
    """
    with daemon.client() as client:
        reply = client.fetchers.get(name)
    if as_json:
        print_object(without_envelope(reply))
        return
    from taskqueue.cli.output import fetcher_tables

    if reply.draining or not reply.found:
        say(_sentence(reply))
    if reply.found:
        fetcher_tables.show_fetchers(reply.fetchers)


@fetcher.command()
@click.argument("name")
@daemon_options
def drain(name: str, daemon: Daemon) -> None:
    """Send no more tasks.

    Applies to all fetchers of this name, now and later, and after restarts, until `taskqueue fetcher resume`. They
    finish tasks that they have begun and give back the rest, which others get. A worker started with
    --exit-when-drained then ends. No fetcher of this name need be connected now.

    \b
    Example:
      taskqueue fetcher drain web1
    """
    with daemon.client() as client:
        say(_sentence(client.fetchers.drain(name)))


@fetcher.command()
@click.argument("name")
@daemon_options
def resume(name: str, daemon: Daemon) -> None:
    """Send tasks again.

    \b
    Example:
      taskqueue fetcher resume web1
    """
    with daemon.client() as client:
        say(_sentence(client.fetchers.resume(name)))


def _sentence(reply: FetcherName) -> str:
    """Describe the state of the fetchers of a name."""
    who = "1 fetcher" if reply.found == 1 else f"{reply.found:,} fetchers"
    what = "1 task" if reply.holds == 1 else f"{reply.holds:,} tasks"
    if not reply.found:
        then = f"gets no tasks until: taskqueue fetcher resume {reply.fetcher}" if reply.draining else "gets tasks"
        return f"no fetcher named {reply.fetcher} is connected; one that comes {then}"
    hung = f"; handlers whose lease has ended occupy {_places(reply.hung)}" if reply.hung else ""
    if reply.draining:
        held = f"still {'holds' if reply.found == 1 else 'hold'} {what}" if reply.holds else "nothing is held any more"
        return f"{reply.fetcher} is draining: {who}, {held}{hung}"
    return f"{reply.fetcher} gets tasks: {who}, {what} held{hung}"


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count:,} places"
