"""The access file: who may use the daemon, by a key or by a token. Write access to it is the root of trust.

    {"keys": [{"name": "web1", "role": "fetcher", "keys": ["3f2a…"], "created_at": …, "projects": ["news-*"]},
              {"name": "anna", "role": "operator", "tokens": ["77c0…"], "created_at": …}]}

A name has a public key, for clients of the daemon, or a token, for the dashboard and the HTTP API, or both; two of a
kind while it is rotated. Only public halves and digests are here, so who reads the file can't come in; but its owner
alone may write it, and it is refused if others may.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from taskqueue.access.key_file import LOCAL_KEY, NAME_PATTERN, NAME_WORDS, Name, PublicKey, server_public
from taskqueue.access.private_file import locked_folder, read_private, write_private
from taskqueue.access.tokens import TokenDigest, digest_of, new_token
from taskqueue.errors import ConfigError, SettingError
from taskqueue.protocol.callers import ALL_PROJECTS, RIGHTS_OF, USER_ROLES, Caller, Role
from taskqueue.protocol.fields import WORDS
from taskqueue.protocol.reasons import file_reason

MAX_ENTRIES: Final = 20_000
MAX_BYTES: Final = 16 << 20

PATTERN: Final = r"^[A-Za-z0-9_.*?\[\]!-]{1,64}$"
PATTERN_WORDS: Final = "letters, digits and _ . - * ? [ ] !, at most 64"
Pattern = Annotated[str, msgspec.Meta(pattern=PATTERN, extra={WORDS: PATTERN_WORDS})]
Patterns = Annotated[tuple[Pattern, ...], msgspec.Meta(min_length=1, max_length=100)]
"""Globs of names of projects."""

RESERVED: Final = ("local", "web", "server")
"""Names that the daemon gives to keys of its own."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Owner of a key or a token.

    Attributes:
        projects: globs of the projects that it reaches.
        keys: its public keys; two while it is rotated, the newer one last.
        tokens: digests of its tokens; two while it is rotated, the newer one last. The web process may speak for names
            with a token, and for no others.
        created_at: unix seconds. A name that was revoked and authorised anew is told from the former one by it.
        expires_at: unix seconds from which on it is refused; None: never.
    """

    name: Name
    role: Role
    keys: Annotated[tuple[PublicKey, ...], msgspec.Meta(max_length=2)]
    created_at: float
    expires_at: float | None = None
    projects: Patterns = (ALL_PROJECTS,)
    tokens: Annotated[tuple[TokenDigest, ...], msgspec.Meta(max_length=2)] = ()

    def is_valid(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or now < self.expires_at

    def has_more_than(self, later: Entry) -> bool:
        """Whether its owner loses a right or a pattern of projects if this entry is replaced by a later one."""
        if not RIGHTS_OF[self.role] <= RIGHTS_OF[later.role]:
            return True
        return ALL_PROJECTS not in later.projects and not set(self.projects) <= set(later.projects)


class Entries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file."""

    keys: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=MAX_ENTRIES)] = ()


class AccessList:
    """Entries by public key, of the file and of the daemon itself.

    Attributes:
        entries: all of them.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)
        self._by_key = {key: entry for entry in entries for key in entry.keys}
        self._by_token = {digest: entry for entry in entries for digest in entry.tokens}
        self._by_name = {entry.name: entry for entry in entries}
        self._callers = {
            entry.name: Caller(entry.name, entry.role, entry.created_at, entry.projects) for entry in entries
        }

    def holder(self, public: str, now: float) -> Entry | None:
        """The entry with this public key; None if there is none, or it has expired."""
        entry = self._by_key.get(public)
        return entry if entry is not None and entry.is_valid(now) else None

    def user(self, digest: str, name: str, now: float) -> Entry | None:
        """The entry with this token, or without a digest the one of this name if it has a token; None if there is none.

        A web process has no user's rights, not even with a token.
        """
        entry = self._by_token.get(digest) if digest else self._by_name.get(name)
        is_user = entry is not None and entry.tokens and entry.role in USER_ROLES and entry.is_valid(now)
        return entry if is_user else None

    def entry(self, public: str) -> Entry | None:
        """The entry with this public key, even if it has expired; None if there is none."""
        return self._by_key.get(public)

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        return name in self._callers

    def caller_of(self, name: str) -> Caller:
        """The caller of this name, with its present role; without any right if the name is gone."""
        return self._callers.get(name) or Caller(name, None)

    def owners(self, now: float) -> dict[str, Entry]:
        """Return the entries that are valid, by owner: see ``Caller.owner``."""
        return {self._callers[entry.name].owner: entry for entry in self.entries if entry.is_valid(now)}

    def next_expiry(self, now: float) -> float:
        """Unix seconds at which the next entry expires; inf: none does."""
        ends = (entry.expires_at for entry in self.entries if entry.expires_at is not None)
        return min((end for end in ends if end > now), default=inf)


def read_entries(path: Path) -> tuple[Entry, ...] | None:
    """Read the access file; None if it does not exist.

    Raises:
        ConfigError: others may read or write it, it is damaged, or names or keys in it are not unique.
    """
    written = read_private(path, MAX_BYTES, "keys")
    if written is None:
        return None
    try:
        entries = msgspec.json.decode(written, type=Entries).keys
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = file_reason(error, Entries)
        raise ConfigError(f"{path} is damaged: {what}; put a copy back, or remove it and authorise anew") from None
    _check_unique(path, entries)
    return entries


def existing_entries(path: Path) -> tuple[Entry, ...]:
    """Read the access file, which must exist.

    Raises:
        ConfigError: it does not, or as in ``read_entries``.
    """
    if (entries := read_entries(path)) is None:
        raise ConfigError(
            f"{path.absolute()} does not exist; run this on the daemon's machine in its folder, or set "
            "TASKQUEUE_DAEMON_KEYS"
        )
    return entries


def authorise(
    path: Path,
    name: str,
    public: str,
    role: Role,
    expires_at: float | None = None,
    projects: Sequence[str] = (ALL_PROJECTS,),
) -> Entry:
    """Let the owner of a public key connect; return its entry.

    Raises:
        ConfigError: the name or the key is invalid or in the file already, or the file can't be read or written.
    """
    return _add(path, Entry(name, role, (public,), time.time(), expires_at, tuple(projects)))


def authorise_token(
    path: Path,
    name: str,
    role: Role,
    expires_at: float | None = None,
    projects: Sequence[str] = (ALL_PROJECTS,),
) -> str:
    """Let a user of the dashboard in; return its token, which is stored nowhere else.

    Raises:
        ConfigError: the name is invalid or in the file already, or the file can't be read or written.
    """
    token = new_token()
    _add(path, Entry(name, role, (), time.time(), expires_at, tuple(projects), (digest_of(token),)))
    return token


def _add(path: Path, entry: Entry) -> Entry:
    _check_name(entry.name)
    _check_patterns(entry.projects)
    with _changing(path, makes=True) as entries:
        _check_free(path, entries, entry.name, *entry.keys)
        if len(entries) >= MAX_ENTRIES:
            raise ConfigError(f"{path}: there are {MAX_ENTRIES} names, which is the most")
        entries.append(_checked(entry))
    return entries[-1]


def change(path: Path, name: str, projects: Sequence[str] = (), **changed: object) -> Entry:
    """Change an entry; return it.

    Args:
        projects: its patterns, in place of all former ones; empty: unchanged.
        changed: new values of other fields, such as ``role``.

    Raises:
        ConfigError: the name is not in the file, a value is invalid, or the file can't be read or written.
    """
    _check_patterns(projects)
    if projects:
        changed["projects"] = tuple(projects)
    with _changing(path) as entries:
        entry = _named(path, entries, name)
        if changed.get("role") == "web" and not entry.keys:
            raise SettingError(f"a web process needs a key, and {name} has only a token")
        made = entries[entries.index(entry)] = _checked(replace(entry, **changed))
    return made


def revoke(path: Path, name: str) -> None:
    """Refuse the keys and tokens of this name from now on.

    Raises:
        ConfigError: the name is not in the file, or the file can't be read or written.
    """
    with _changing(path) as entries:
        entries.remove(_named(path, entries, name))


def rotate(path: Path, name: str, public: str) -> None:
    """Add a second public key to a name; its first one goes on working until ``finish_rotation``.

    Raises:
        ConfigError: the name is not in the file, it has two keys, the key is in the file, or the file can't be written.
    """
    with _changing(path) as entries:
        entry = _named(path, entries, name)
        if len(entry.keys) > 1:
            raise ConfigError(
                f'{path}: "{name}" has two keys; drop the older one: taskqueue key rotate {name} --finish'
            )
        _check_free(path, entries, "", public)
        entries[entries.index(entry)] = _checked(replace(entry, keys=(*entry.keys, public)))


def rotate_token(path: Path, name: str) -> str:
    """Add a token to a name and return it; a former one goes on working until ``finish_rotation``.

    Raises:
        ConfigError: the name is not in the file, it has two tokens, or the file can't be written.
    """
    token = new_token()
    with _changing(path) as entries:
        entry = _named(path, entries, name)
        if len(entry.tokens) > 1:
            raise ConfigError(
                f'{path}: "{name}" has two tokens; drop the older one: taskqueue key rotate {name} --finish'
            )
        entries[entries.index(entry)] = replace(entry, tokens=(*entry.tokens, digest_of(token)))
    return token


def finish_rotation(path: Path, name: str) -> None:
    """Drop the older one of two public keys of a name, and of two tokens.

    Raises:
        ConfigError: the name is not in the file, it has one of each at most, or the file can't be written.
    """
    with _changing(path) as entries:
        entry = _named(path, entries, name)
        if len(entry.keys) < 2 and len(entry.tokens) < 2:
            raise ConfigError(
                f'{path}: "{name}" has no second key or token; add it: taskqueue key rotate {name} PUBLIC, or --token'
            )
        entries[entries.index(entry)] = replace(entry, keys=entry.keys[-1:], tokens=entry.tokens[-1:])


@contextmanager
def _changing(path: Path, *, makes: bool = False) -> Iterator[list[Entry]]:
    """The entries of the file, which are written at the end of the block, under a lock.

    Args:
        makes: make the file if it is missing; else that is an error, and no folder is made either.
    """
    if not makes:
        existing_entries(path)
    with locked_folder(path):
        entries = list(read_entries(path) or ())
        yield entries
        encoded = msgspec.json.encode(Entries(tuple(entries)))
        write_private(path, msgspec.json.format(encoded, indent=1) + b"\n", "keys")


def _named(path: Path, entries: Sequence[Entry], name: str) -> Entry:
    for entry in entries:
        if entry.name == name:
            return entry
    if name == "local":
        raise ConfigError(
            f'{path}: "local" is the key in {LOCAL_KEY} beside it; remove that file, and a restart makes another'
        )
    raise ConfigError(f'{path}: no such name: "{name}"; taskqueue key list shows all')


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ConfigError(f'"{name}" is not a valid name: {NAME_WORDS}')
    if name in RESERVED:
        raise ConfigError(f'"{name}" is a name of the daemon\'s own; choose another')


def _check_patterns(projects: Sequence[str]) -> None:
    for pattern in projects:
        if not re.fullmatch(PATTERN, pattern):
            raise ConfigError(f'"{pattern}" is not a pattern of projects: {PATTERN_WORDS}')


def _check_free(path: Path, entries: Sequence[Entry], name: str, *public: str) -> None:
    for entry in entries:
        if entry.name == name:
            raise ConfigError(
                f'{path}: "{name}" is there; revoke it first, or add a key or token: taskqueue key rotate {name}'
            )
        if not set(public).isdisjoint(entry.keys):
            raise ConfigError(f'{path}: this is the key of "{entry.name}"; each name needs a key of its own')
    if public and server_public(path.parent) in public:
        raise ConfigError("this is the daemon's own public key; give the one that taskqueue key generate printed")


def _checked(entry: Entry) -> Entry:
    try:
        return msgspec.convert(msgspec.to_builtins(entry), Entry)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{entry.name}: {file_reason(error, Entry)}") from None


def _check_unique(path: Path, entries: Sequence[Entry]) -> None:
    names: set[str] = set()
    keys: set[str] = set()
    tokens: set[str] = set()
    for entry in entries:
        if entry.name in names or entry.name in RESERVED:
            raise ConfigError(f'{path}: the name "{entry.name}" is there twice, or is one of the daemon\'s own')
        if keys & set(entry.keys):
            raise ConfigError(f'{path}: a key of "{entry.name}" belongs to another name, too')
        if tokens & set(entry.tokens):
            raise ConfigError(f'{path}: a token of "{entry.name}" belongs to another name, too')
        if not entry.keys and not entry.tokens:
            raise ConfigError(f'{path}: "{entry.name}" has neither a key nor a token')
        names.add(entry.name)
        keys.update(entry.keys)
        tokens.update(entry.tokens)
