"""Key files: a pair of CURVE keys with the name of its owner, for one client or for the daemon.

    web1.key     {"name": "web1", "public": "…", "secret": "…", "server": "…"}
    server.key   {"name": "server", "public": "…", "secret": "…"}

Keys are Curve25519, 32 bytes each, written as 64 hex digits, which a shell passes on as they are. The client's file has
the public key of its daemon, too: the client refuses any other daemon.
"""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
import zmq
from zmq.utils import z85

from taskqueue.access.private_file import locked_folder, read_private, write_private
from taskqueue.defaults import ACCESS_FILE
from taskqueue.errors import ConfigError, SettingError
from taskqueue.protocol.fields import WORDS
from taskqueue.protocol.reasons import file_reason

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"
NAME_WORDS: Final = "letters, digits and _ . @ -, at most 64"
Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN, extra={WORDS: NAME_WORDS})]
PublicKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$", extra={WORDS: "64 hex digits"})]
"""64 hex digits."""

SHOWN_CHARS: Final = 8
"""Hex digits of a public key by which logs and lists tell it from others."""

MAX_KEY_BYTES: Final = 4096
SERVER_KEY: Final = "server.key"
LOCAL_KEY: Final = "local.key"
"""Files beside the access file: the daemon's own pair, and the key of clients on its machine."""

LOOPBACK: Final = ("tcp://127.", "tcp://localhost:", "tcp://[::1]:")


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pair of keys.

    Attributes:
        name: of its owner, for people; the daemon knows a key by its public half.
        secret: 64 hex digits, never sent to anybody.
        server: public key of the only daemon that this client talks to; empty in the daemon's own file.
    """

    name: Name
    public: PublicKey
    secret: PublicKey
    server: Annotated[
        str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$", extra={WORDS: "64 hex digits, or an empty text"})
    ] = ""

    def __repr__(self) -> str:
        """Without the secret, which would end up in a log."""
        return f"KeyFile(name={self.name!r}, public={self.public!r})"


def make_key(name: str, server: str = "") -> KeyFile:
    """Make a new pair, for a client of the daemon with the public key ``server``."""
    public, secret = (z85.decode(key).hex() for key in zmq.curve_keypair())
    return KeyFile(name, public, secret, server)


def read_key(path: Path) -> KeyFile:
    """Read the key file of a client.

    Raises:
        ConfigError: others may read it.
        SettingError: it is missing or damaged, or has no public key of a daemon.
    """
    found = _read(path)
    if found is None:
        raise SettingError(f"{path}: there is no such key file; make one with: taskqueue key generate NAME")
    if not found.server:
        raise SettingError(f"{path} is the daemon's own key; clients need one of: taskqueue key generate NAME")
    return found


def write_new_key(path: Path, key: KeyFile) -> None:
    """Write a key file that must not be there yet.

    Raises:
        ConfigError: it is there, or can't be written.
    """
    with locked_folder(path):
        if path.exists():
            raise ConfigError(f"{path} exists; name another file with --out, or remove it")
        _write(path, key)


def server_key(folder: Path) -> KeyFile:
    """The daemon's pair in this folder, made if there is none.

    Raises:
        ConfigError: it can't be read or made.
    """
    return _kept(folder / SERVER_KEY, "server", "")


def server_public(folder: Path) -> str:
    """Public key of the daemon's pair in this folder; empty: there is none, or it can't be read."""
    try:
        found = _read(folder / SERVER_KEY)
    except ConfigError:
        return ""
    return "" if found is None else found.public


def local_key(folder: Path, server: str) -> KeyFile:
    """The key of clients on the daemon's machine, made anew if there is none for the daemon's public key ``server``.

    Raises:
        ConfigError: it can't be read or made.
    """
    return _kept(folder / LOCAL_KEY, "local", server)


def find_local_key(address: str, access_file: Path | None = None) -> Path | None:
    """Return local.key of a daemon on this machine, for a client that names no key; None if this user has none.

    Args:
        address: address of the daemon.
        access_file: access file beside which it is; None: TASKQUEUE_DAEMON_KEYS, or else ACCESS_FILE.
    """
    if not _is_here(address):
        return None
    found = Path(access_file or os.environ.get("TASKQUEUE_DAEMON_KEYS") or ACCESS_FILE).parent / LOCAL_KEY
    return found if os.access(found, os.R_OK) else None


def _is_here(address: str) -> bool:
    """Whether a daemon at this address runs on this machine; no name but localhost is looked up."""
    if address.startswith(LOOPBACK):
        return True
    try:
        host = ip_address(urlsplit(address).hostname or "")
        with socket.socket(socket.AF_INET6 if host.version == 6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((str(host), 0))  # only an address of this machine can be bound
    except (ValueError, OSError):
        return False
    return True


def key_in(fd: int) -> KeyFile:
    """Read the line that ``key_line`` has made, and nothing behind it, from a pipe.

    Raises:
        SettingError: the line is not a key.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_KEY_BYTES and (octet := os.read(fd, 1)):
        line += octet
    try:
        return msgspec.json.decode(line, type=KeyFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"stdin: no key: {file_reason(error, KeyFile)}") from None


def key_line(key: KeyFile) -> bytes:
    """A key as one line, for the stdin of another process."""
    return msgspec.json.encode(key) + b"\n"


def _kept(path: Path, name: str, server: str) -> KeyFile:
    with locked_folder(path):
        found = _read(path)
        if found is None or found.server != server:
            found = make_key(name, server)
            _write(path, found)
        return found


def _read(path: Path) -> KeyFile | None:
    written = read_private(path, MAX_KEY_BYTES, "key")
    if written is None:
        return None
    try:
        return msgspec.json.decode(written, type=KeyFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not a key file: {file_reason(error, KeyFile)}") from None


def _write(path: Path, key: KeyFile) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(key), indent=1) + b"\n", "key")
