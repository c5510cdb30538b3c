"""``taskqueue key``: make keys, and say which of them may connect to a daemon.

All of this changes files: the daemon watches the access file, so a change counts within a second. ``list`` asks the
daemon, too, what each key has done.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast, get_args

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.output.json_output import json_lines_option
from taskqueue.defaults import ACCESS_FILE
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.access.access_file import Entry
    from taskqueue.protocol.callers import Right, Role
    from taskqueue.protocol.daemon import KeyUse

Command = TypeVar("Command", bound=Callable[..., object])

ROLES: Final = ("viewer", "producer", "fetcher", "operator", "admin", "web")
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


def _end(written: str) -> float:
    """Parse a DURATION, or ``never``, into seconds."""
    return inf if written == "never" else times.some_seconds(written)


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


@contextmanager
def _telling_of(path: Path) -> Iterator[None]:
    """Say on stderr if the block makes a file: in another folder than the daemon's it has no effect."""
    was_there = path.exists()
    yield
    if not was_there and path.exists():
        from taskqueue.access.key_file import LOCAL_KEY

        # A daemon with keys makes that one when it starts.
        is_read = (path.parent / LOCAL_KEY).exists()
        elsewhere = (
            ", which no daemon reads yet; a running daemon's is elsewhere: run this in its folder, or set "
            "TASKQUEUE_DAEMON_KEYS"
        )
        say(f"made {path.absolute()}{'' if is_read else elsewhere}", err=True)


@click.group()
def key() -> None:
    """Make keys, and say who may connect.

    The daemon asks clients for a key if its setting daemon.keys names an access file. Each client has a key file of its
    own, each user of the dashboard a token; the access file has their names, roles, public keys and digests of tokens.
    Run these commands on the daemon's machine, as the daemon's user; `generate` anywhere.

    \b
    Example:
      taskqueue key server
      taskqueue key generate web1 --server PUBLIC
      taskqueue key authorise web1 PUBLIC --role fetcher --projects 'news-*'
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
    say(f"{path} has the key of {name}; let it in at the daemon with: {_way_in(keys, name)}", err=True)


def _way_in(keys: Path, name: str) -> str:
    """Command that lets in a new key of a name; where the access file is not at hand, of a new and of a known name."""
    from taskqueue.access.access_file import read_entries
    from taskqueue.errors import ConfigError

    new, known = f"taskqueue key authorise {name} PUBLIC --role ROLE", f"taskqueue key rotate {name} PUBLIC"
    try:
        entries = read_entries(keys)
    except ConfigError:
        entries = None
    if entries is None:
        return f"{new}, or if the name is there already: {known}"
    return known if any(entry.name == name for entry in entries) else new


@key.command()
@click.argument("name")
@click.argument("public", required=False)
@click.option("--token", is_flag=True, help="A token for the dashboard and HTTP, not a key.")
@click.option("--role", type=click.Choice(ROLES), required=True, help="Rights of the name.")
@click.option("--projects", multiple=True, metavar="GLOB", help="Projects that it reaches (repeatable).  [default: *]")
@click.option("--expires", metavar="DURATION", type=times.some_seconds, help="Time until it expires, such as 90d.")
@keys_option
def authorise(
    name: str,
    public: str | None,
    token: bool,
    role: str,
    projects: tuple[str, ...],
    expires: float | None,
    keys: Path,
) -> None:
    """Let the owner of a key connect.

    PUBLIC is the public key that `key generate` printed, or the key file that it made. With --token the name gets a
    token instead, for a user of the dashboard or a program that speaks HTTP; it is printed once. The name reaches only
    projects that match one of --projects, in which * stands for any text.

    \b
    Example:
      taskqueue key authorise web1 PUBLIC --role fetcher --projects 'news-*'
      taskqueue key authorise ops ops.key --role operator --expires 90d
      taskqueue key authorise anna --token --role viewer
    """
    from taskqueue.access import access_file

    if token == (public is not None):
        raise click.UsageError("Give the public key, or --token.")
    expires_at = time.time() + expires if expires else None
    patterns = projects or ("*",)
    if public is not None:
        with _telling_of(keys):
            made = access_file.authorise(keys, name, public_key(public), cast("Role", role), expires_at, patterns)
        say(f"{name} may connect, as {_who(made)}.")
        return
    if role == "web":
        raise click.UsageError("A web process needs a key, not a token.")
    with _telling_of(keys):
        made_token = access_file.authorise_token(keys, name, cast("Role", role), expires_at, patterns)
    say(made_token)
    say(f"This is the token of {name}, {role}; it is shown this once.", err=True)


@key.command("set")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), help="Rights of the key.")
@click.option("--projects", multiple=True, metavar="GLOB", help="Projects that it reaches (repeatable).")
@click.option("--expires", metavar="DURATION", type=_end, help="Time until the key expires, such as 90d, or never.")
@keys_option
def change(name: str, role: str | None, projects: tuple[str, ...], expires: float | None, keys: Path) -> None:
    """Change what a name may do, and until when.

    What is not given stays as it is; --projects replaces all former ones. It counts within a second, for connections
    that exist, too. If the name loses a right or projects, its clients connect anew and the tasks of its fetchers go to
    others.

    \b
    Example:
      taskqueue key set web1 --projects 'news-*' --projects blog
      taskqueue key set ops --role admin --expires never
    """
    from taskqueue.access import access_file

    changed: dict[str, object] = {"role": role} if role else {}
    if expires is not None:
        changed["expires_at"] = None if expires == inf else time.time() + expires
    if not changed and not projects:
        raise click.UsageError("Give --role, --projects or --expires.")
    made = access_file.change(keys, name, projects, **changed)
    until = "never expires" if made.expires_at is None else f"expires {times.local(made.expires_at)}"
    say(f"{name} is now {_a(_who(made))}{f', and {until}' if expires is not None else ''}.")


@key.command("list")
@json_lines_option
@keys_option
@daemon_options
def list_keys(as_json: bool, keys: Path, daemon: Daemon) -> None:
    """List who may connect.

    The access file says who; the daemon says when each was connected last and from where, its open connections, and how
    many requests and connections of it were refused since the daemon's start, and which users came by ipc. If it can't
    be asked, these are missing.

    \b
    Example:
      taskqueue key list
      taskqueue key list --json | jq -r .name
    """
    from taskqueue.access.access_file import existing_entries
    from taskqueue.access.key_file import SHOWN_CHARS, find_local_key
    from taskqueue.cli.output.json_output import print_lines
    from taskqueue.protocol.callers import ALL_PROJECTS, USER
    from taskqueue.protocol.daemon import KeyUse

    entries = existing_entries(keys)
    uses = _uses(daemon._replace(key=find_local_key(daemon.address, keys) if daemon.key is None else daemon.key))
    users = [use for use in (uses or {}).values() if use.name.startswith(USER)]
    if as_json:
        print_lines(
            {
                "name": each.name, "role": each.role, "projects": each.projects, "keys": each.keys,
                "tokens": len(each.tokens),
                "created_at": each.created_at, "expires_at": each.expires_at,
            } | ({} if uses is None else {"use": uses.get(each.name) or KeyUse(each.name)})
            for each in entries
        )  # fmt: skip
        print_lines({"name": use.name, "use": use} for use in users)
        return
    from taskqueue.cli.output.tables import bare_table, show
    from taskqueue.terminal.screen import Text

    figures = [] if uses is None else ["connections", "refused"]
    places = [] if uses is None else ["last seen", "from"]
    table = bare_table(["name"], figures, ["role", "projects", "public key", "made", "expires", *places])
    for each in entries:
        shown = ", ".join([public[:SHOWN_CHARS] for public in each.keys] + ["(token)"] * len(each.tokens))
        row = [each.name, each.role, ", ".join(each.projects), shown, times.local(each.created_at), _end_of(each)]
        if uses is not None:
            row = _with_use(row, uses.get(each.name) or KeyUse(each.name))
        table.add_row(*map(Text, row))
    for use in users:
        table.add_row(*map(Text, _with_use([use.name, "(ipc_role)", ALL_PROJECTS, "(ipc)", "", ""], use)))
    show(table)


def _with_use(row: list[str], use: KeyUse) -> list[str]:
    seen = times.local(use.seen_at) if use.seen_at else ""
    return [row[0], str(use.connections), str(use.forbidden + use.refused), *row[1:], seen, use.address]


def _uses(daemon: Daemon) -> dict[str, KeyUse] | None:
    """Use of each key, by name; None, with a line on stderr, if the daemon can't be asked."""
    from taskqueue.errors import TaskQueueError

    try:
        with daemon.client() as client:
            return {use.name: use for use in client.daemon.key_uses()}
    except TaskQueueError as error:
        say(f"The daemon can't be asked who was there: {error}", err=True)
        return None


@key.command()
@click.argument("name")
@click.argument("what", metavar="REQUEST")
@click.argument("project", required=False)
@keys_option
def may(name: str, what: str, project: str | None, keys: Path) -> int:
    """Say whether a name may do something.

    Nothing is done. REQUEST is a message of the protocol, such as new-task or done, an action on a project, such as
    pause or delete, or a right: look, push, work, run, rule. The exit status is 1 if the name may not.

    \b
    Example:
      taskqueue key may web1 done
      taskqueue key may web1 pause news-a
    """
    from taskqueue.access.access_file import existing_entries

    right, is_about_all = _right_of(what), _is_about_all(what, project)
    what = "taking tasks" if what == "hello" else what  # a hello that takes none needs no more than a look
    entry = next((each for each in existing_entries(keys) if each.name == name), None)
    if why_not := _why_not(entry, name, what, right, "*" if is_about_all else project):
        say(f"no: {why_not}")
        return 1
    assert entry is not None
    say(f"yes: {name} is {_a(_who(entry))}, and {what} takes the right {right}")
    return 0


def _why_not(entry: Entry | None, name: str, what: str, right: Right, project: str | None) -> str:
    """Reason why the name may not do it; empty: it may.

    Args:
        project: project that it is done to; ``*``: all at once; None: any.
    """
    from taskqueue.access.rights import roles_text
    from taskqueue.protocol.callers import ALL_PROJECTS, RIGHTS_OF, Scope

    if entry is None:
        return f"the access file has no {name}"
    if not entry.is_valid(time.time()):
        return f"the key of {name} has expired"
    if right not in RIGHTS_OF[entry.role]:
        return f"{name} is {_a(entry.role)}, and {what} takes {roles_text(right)}"
    if project == ALL_PROJECTS and ALL_PROJECTS not in entry.projects:
        return f"{name} is {_a(_who(entry))}, and {what} is about all projects"
    if project is not None and not Scope(entry.projects).has(project):
        return f"{name} is {_a(_who(entry))}, and {project} is outside"
    return ""


def _who(entry: Entry) -> str:
    """Role and projects, such as ``fetcher of news-*``; of all projects the role alone."""
    return entry.role if "*" in entry.projects else f"{entry.role} of {', '.join(entry.projects)}"


def _right_of(what: str) -> Right:
    """The right that a request, an action or a right of this name takes.

    Raises:
        click.BadParameter: the name is unknown.
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


def _is_about_all(what: str, project: str | None) -> bool:
    """Whether requests of this name are about all projects as one, even if the user names one."""
    from taskqueue.access.rights import are_about_all
    from taskqueue.protocol.messages import REQUESTS

    return any(kind.__struct_config__.tag == what and are_about_all(kind, project) for kind in REQUESTS)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "ao" else f"a {noun}"


@key.command()
@click.argument("name")
@keys_option
def revoke(name: str, keys: Path) -> None:
    """Refuse a name from now on.

    A running daemon closes the connections of its keys within a second, and gives the tasks of its fetchers to others.
    A token's user is signed out as quickly.

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
@click.option("--token", is_flag=True, help="A new token, not a key.")
@click.option("--finish", is_flag=True, help="Drop the older one of two keys or tokens.")
@keys_option
def rotate(name: str, public: str | None, token: bool, finish: bool, keys: Path) -> None:
    """Replace the key or the token of a name.

    Add the new public key, which works beside the old one; give the clients the new key file; then --finish drops the
    old key, and connections that still use it are closed. With --token, a new token is printed instead. A name without
    a token gets its first.

    \b
    Example:
      taskqueue key rotate web1 PUBLIC
      taskqueue key rotate web1 --finish
      taskqueue key rotate anna --token
    """
    from taskqueue.access import access_file

    if [public is not None, token, finish].count(True) != 1:
        raise click.UsageError("Give the new public key, --token, or --finish.")
    if token:
        say(access_file.rotate_token(keys, name))
        say(f"This is the new token of {name}; it is shown this once.", err=True)
    elif public is not None:
        access_file.rotate(keys, name, public_key(public))
        say(f"{name} may connect with either key; drop the older one with: taskqueue key rotate {name} --finish")
    else:
        access_file.finish_rotation(keys, name)
        say(f"{name} has its newer key or token only.")


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
    from taskqueue.access.key_file import SERVER_KEY, server_key

    with _telling_of(keys.parent / SERVER_KEY):
        public = server_key(keys.parent).public
    say(public)


def _end_of(entry: Entry) -> str:
    if entry.expires_at is None:
        return "never"
    return times.local(entry.expires_at) + (" (expired)" if entry.expires_at <= time.time() else "")
