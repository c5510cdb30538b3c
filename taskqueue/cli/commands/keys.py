"""``taskqueue key``: make keys, and say which of them may connect to a daemon.

All of this changes files: the daemon watches the access file, so a change counts within a second.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast, get_args

import click

from taskqueue.cli.input import times
from taskqueue.cli.output.json_output import json_lines_option
from taskqueue.defaults import ACCESS_FILE
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.access.access_file import Entry
    from taskqueue.protocol.callers import Right, Role

Command = TypeVar("Command", bound=Callable[..., object])

ROLES: Final = ("viewer", "producer", "fetcher", "operator", "admin")
"""As in ``taskqueue.protocol.callers``, which is not imported to start quickly."""

PUBLIC_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


def public_key(written: str) -> str:
    """The public key that is written as 64 hex digits, or is in a key file.

    Raises:
        ConfigError: neither is the case.
    """
    from taskqueue.access.key_file import read_key

    if PUBLIC_PATTERN.fullmatch(written.lower()):
        return written.lower()
    if not Path(written).exists():
        raise click.BadParameter(f'"{written}" is neither 64 hex digits nor a key file', param_hint="PUBLIC")
    return read_key(Path(written)).public


def keys_option(command: Command) -> Command:
    """Add the option --keys to a command."""
    option = click.option(
        "--keys",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar="TASKQUEUE_DAEMON_KEYS",
        default=ACCESS_FILE,
        show_default=True,
        show_envvar=True,
        help="Access file of the daemon.",
    )
    return option(command)


@click.group()
def key() -> None:
    """Make keys, and say who may connect.

    The daemon asks clients for a key if its setting daemon.keys names an access file. Each client has a key file of its
    own; the access file has the names, roles and public keys of all clients. Run these commands on the daemon's
    machine, as the daemon's user; `generate` anywhere.

    \b
    Example:
      taskqueue key server
      taskqueue key generate web1 --server PUBLIC
      taskqueue key authorise web1 PUBLIC --role fetcher
    """


@key.command()
@click.argument("name")
@click.option("--server", metavar="PUBLIC", help="Public key of the daemon, from `key server`.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="File to write.  [default: NAME.key]")
@keys_option
def generate(name: str, server: str | None, out: Path | None, keys: Path) -> None:
    """Make a key file for a client.

    Prints the public key, for `key authorise`. The file has the secret key, and only its owner may read it; the client
    is given it by --key or TASKQUEUE_KEY. On the daemon's machine --server may be left out.

    \b
    Example:
      taskqueue key generate web1 --server PUBLIC
      TASKQUEUE_KEY=web1.key taskqueue status
    """
    from taskqueue.access.key_file import NAME_PATTERN, NAME_WORDS, SERVER_KEY, make_key, server_key, write_new_key

    if not re.fullmatch(NAME_PATTERN, name):
        raise click.BadParameter(f'"{name}" is not a valid name: {NAME_WORDS}', param_hint="NAME")
    if server is None and not (keys.parent / SERVER_KEY).exists():
        raise click.UsageError("--server is missing: the public key that `taskqueue key server` prints at the daemon.")
    made = make_key(name, server_key(keys.parent).public if server is None else public_key(server))
    path = out or Path(f"{name}.key")
    write_new_key(path, made)
    say(made.public)
    say(f"{path} has the key of {name}; let it in with: taskqueue key authorise {name} PUBLIC --role ROLE", err=True)


@key.command()
@click.argument("name")
@click.argument("public")
@click.option("--role", type=click.Choice(ROLES), required=True, help="Rights of the key.")
@click.option("--expires", metavar="DURATION", type=times.some_seconds, help="Time until the key expires, such as 90d.")
@keys_option
def authorise(name: str, public: str, role: str, expires: float | None, keys: Path) -> None:
    """Let the owner of a key connect.

    PUBLIC is the public key that `key generate` printed, or the key file that it made.

    \b
    Example:
      taskqueue key authorise web1 PUBLIC --role fetcher
      taskqueue key authorise ops ops.key --role operator --expires 90d
    """
    from taskqueue.access import access_file

    expires_at = time.time() + expires if expires else None
    access_file.authorise(keys, name, public_key(public), cast("Role", role), expires_at)
    say(f"{name} may connect, as {role}.")


@key.command("list")
@json_lines_option
@keys_option
def list_keys(as_json: bool, keys: Path) -> None:
    """List who may connect.

    \b
    Example:
      taskqueue key list
      taskqueue key list --json | jq -r .name
    """
    from taskqueue.access.access_file import read_entries
    from taskqueue.access.key_file import SHOWN_CHARS
    from taskqueue.cli.output.json_output import print_lines

    entries = read_entries(keys) or ()
    if as_json:
        print_lines(
            {
                "name": each.name, "role": each.role, "keys": each.keys,
                "created_at": each.created_at, "expires_at": each.expires_at,
            }
            for each in entries
        )  # fmt: skip
        return
    from taskqueue.cli.output.tables import bare_table, show
    from taskqueue.terminal.screen import Text

    table = bare_table(["name"], [], ["role", "public key", "made", "expires"])
    for each in entries:
        shown = ", ".join(public[:SHOWN_CHARS] for public in each.keys)
        row = (each.name, each.role, shown, times.local(each.created_at), _end_of(each))
        table.add_row(*map(Text, row))
    show(table)


@key.command()
@click.argument("name")
@click.argument("what", metavar="REQUEST")
@keys_option
def may(name: str, what: str, keys: Path) -> int:
    """Say whether a name may do something.

    Nothing is done. REQUEST is a message of the protocol, such as new-task or done, an action on a project, such as
    pause or delete, or a right: look, push, work, run, rule. The exit status is 1 if the name may not.

    \b
    Example:
      taskqueue key may web1 done
      taskqueue key may web1 pause
    """
    from taskqueue.access.access_file import read_entries

    right = _right_of(what)
    entry = next((each for each in read_entries(keys) or () if each.name == name), None)
    if why_not := _why_not(entry, name, what, right):
        say(f"no: {why_not}")
        return 1
    assert entry is not None
    say(f"yes: {name} is {_a(entry.role)}, and {what} takes the right {right}")
    return 0


def _why_not(entry: Entry | None, name: str, what: str, right: Right) -> str:
    """Reason why the name may not do it; empty: it may."""
    from taskqueue.protocol.callers import RIGHTS_OF

    if entry is None:
        return f"there is no key of {name}"
    if not entry.is_valid(time.time()):
        return f"the key of {name} has expired"
    if right not in RIGHTS_OF[entry.role]:
        roles = " or ".join(role for role, rights in RIGHTS_OF.items() if right in rights)
        return f"{name} is {_a(entry.role)}, and {what} takes {_a(roles)}"
    return ""


def _right_of(what: str) -> Right:
    """The right that a request, an action or a right of this name takes.

    Raises:
        click.BadParameter: there is no such thing.
    """
    from taskqueue.access.rights import TYPE_RIGHTS, right_of
    from taskqueue.protocol.callers import Right
    from taskqueue.protocol.projects import ProjectDo
    from taskqueue.protocol.values import Action

    rights: dict[str, Right] = {kind.__struct_config__.tag: right for kind, right in TYPE_RIGHTS.items()}  # type: ignore[misc]
    rights |= {action: right_of(ProjectDo(project="p", action=action, session="", n=0)) for action in get_args(Action)}
    rights |= {right: right for right in get_args(Right)}
    if what not in rights:
        raise click.BadParameter(f'"{what}" is none of: {", ".join(rights)}', param_hint="REQUEST")
    return rights[what]


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "ao" else f"a {noun}"


@key.command()
@click.argument("name")
@keys_option
def revoke(name: str, keys: Path) -> None:
    """Refuse a name from now on.

    A running daemon closes the connections of its keys within a second, and gives the tasks of its fetchers to others.

    \b
    Example:
      taskqueue key revoke web1
    """
    from taskqueue.access import access_file

    access_file.revoke(keys, name)
    say(f"{name} may not connect any more.")


@key.command()
@click.argument("name")
@click.argument("public", required=False)
@click.option("--finish", is_flag=True, help="Drop the older one of two keys.")
@keys_option
def rotate(name: str, public: str | None, finish: bool, keys: Path) -> None:
    """Replace the key of a name.

    Add the new public key, which works beside the old one; give the clients the new key file; then --finish drops the
    old key, and connections that still use it are closed.

    \b
    Example:
      taskqueue key rotate web1 PUBLIC
      taskqueue key rotate web1 --finish
    """
    from taskqueue.access import access_file

    if finish == (public is not None):
        raise click.UsageError("Give the new public key, or --finish.")
    if public is not None:
        access_file.rotate(keys, name, public_key(public))
        say(f"{name} may connect with either key; drop the older one with: taskqueue key rotate {name} --finish")
    else:
        access_file.finish_rotation(keys, name)
        say(f"{name} may connect with its new key only.")


@key.command()
@keys_option
def server(keys: Path) -> None:
    """Print the daemon's public key.

    Clients need it in their key file: taskqueue key generate NAME --server PUBLIC. The pair is in server.key beside the
    access file, and is made if it is not there.

    \b
    Example:
      taskqueue key server
    """
    from taskqueue.access.key_file import server_key

    say(server_key(keys.parent).public)


def _end_of(entry: Entry) -> str:
    if entry.expires_at is None:
        return "never"
    return times.local(entry.expires_at) + (" (expired)" if entry.expires_at <= time.time() else "")
