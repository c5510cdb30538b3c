"""``taskqueue web token``: who may come in to the page and the HTTP interface."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import click

from taskqueue.cli.input import times
from taskqueue.cli.output.json_output import json_lines_option
from taskqueue.terminal.lines import say
from taskqueue.web.options import DEFAULT_TOKENS
from taskqueue.web.roles import GRANTED

Command = TypeVar("Command", bound=Callable[..., object])


def tokens_option(command: Command) -> Command:
    """Add the option --tokens to a command."""
    option = click.option(
        "--tokens",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar="TASKQUEUE_WEB_TOKENS",
        default=DEFAULT_TOKENS,
        show_default=True,
        help="The file of tokens; or TASKQUEUE_WEB_TOKENS.",
    )
    return option(command)


@click.group()
def token() -> None:
    """Say who may come in to the page and the HTTP interface, and what they may do.

    viewer looks; operator runs, pushes, retries, pauses; admin changes settings and deletes, too. A running web process
    sees each change at once: who has lost his token is out.

    \b
    Example:
      taskqueue web token add anna --role admin
      taskqueue web token list
    """


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(GRANTED), required=True, help="What it allows.")
@click.option("--expires", metavar="AGE", type=times.some_seconds, help="After so long it is worth nothing: 90d.")
@tokens_option
def add(name: str, role: Literal["viewer", "operator", "admin"], expires: float | None, tokens: Path) -> None:
    """Make a token, and print it: it is nowhere else, the file has a digest of it.

    People paste it into the sign-in page, programs send it as "Authorization: Bearer TOKEN".

    \b
    Example:
      taskqueue web token add anna --role admin
      taskqueue web token add prometheus --role viewer --expires 365d
    """
    from taskqueue.web.access.token_file import add_token

    say(add_token(tokens, name, role, time.time() + expires if expires else None))
    say(f"This is the token of {name}, {role}; it is shown this once.", err=True)


@token.command("list")
@json_lines_option
@tokens_option
def list_tokens(as_json: bool, tokens: Path) -> None:
    """List who has a token, the oldest first.

    \b
    Example:
      taskqueue web token list
    """
    from taskqueue.cli.output.json_output import print_lines
    from taskqueue.web.access.token_file import read_tokens

    read = read_tokens(tokens)
    found = read.tokens if read else ()
    if as_json:
        print_lines(
            {"name": each.name, "role": each.role, "created_at": each.created_at, "expires_at": each.expires_at}
            for each in found
        )
        return
    from taskqueue.cli.output.tables import bare_table, show
    from taskqueue.terminal.screen import Text

    table = bare_table(["name"], [], ["role", "made", "expires"])
    for each in found:
        table.add_row(*map(Text, (each.name, each.role, times.local(each.created_at), _end_of(each.expires_at))))
    show(table)


@token.command()
@click.argument("name")
@tokens_option
def remove(name: str, tokens: Path) -> None:
    """Take a token away: whoever came in with it is out.

    \b
    Example:
      taskqueue web token remove anna
    """
    from taskqueue.web.access.token_file import remove_token

    remove_token(tokens, name)
    say(f"{name} has no token any more.")


def _end_of(expires_at: float | None) -> str:
    if expires_at is None:
        return "never"
    return times.local(expires_at) + (" (over)" if expires_at <= time.time() else "")
