"""Read RocksDB's MANIFEST: which tables a store has, and which logs are needed beside them.

It is a file of records (``log_records``). Each edits the state of the earlier ones by fields, each a tag and a value.
Tags are those of https://github.com/facebook/rocksdb/blob/main/db/version_edit.h; tags that are not needed here are
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO, Final

from msgspec import Struct, field

from taskqueue.errors import StoreError
from taskqueue.store.files.log_records import Unreadable, record_bytes, records_of

Place = tuple[int, int]
"""Identity of a table: number of its family, number of its file."""


class Table(Struct, frozen=True):
    """Table of sorted keys.

    Attributes:
        level: level in the LSM tree.
        file_bytes: length of its file.
        largest_seq: largest number of the changes in it, or merged away in it.
    """

    level: int
    file_bytes: int
    largest_seq: int


class Manifest(Struct):
    """Content of a MANIFEST after all its edits.

    Attributes:
        families: names by number.
        log_numbers: number of the first log with changes of a family that are in no table, by family.
        first_log: number of the oldest log that RocksDB keeps; it deletes all with smaller numbers.
        last_seq: number of the store's last change when the MANIFEST was written.
        tables: tables by family and file number.
        flaw: offset and reason of the first unreadable place that is not a torn tail.
    """

    families: dict[int, str] = field(default_factory=lambda: {0: "default"})
    log_numbers: dict[int, int] = field(default_factory=dict)
    first_log: int = 0
    last_seq: int = 0
    tables: dict[Place, Table] = field(default_factory=dict)
    flaw: tuple[int, str] | None = None

    @property
    def largest_seq(self) -> int:
        """Largest seq of all tables; 0 without tables."""
        return max((table.largest_seq for table in self.tables.values()), default=0)


_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _LAST_SEQ, _COMPACT_POINTER, _DELETED_TABLE = 1, 2, 3, 4, 5, 6
_PREVIOUS_LOG, _FIRST_LOG, _TABLE = 9, 10, 103
_FAMILY, _FAMILY_ADDED, _FAMILY_DROPPED, _MOST_FAMILIES, _IN_GROUP = 200, 201, 202, 203, 300
_SAFE_TO_IGNORE: Final = 1 << 13
"""Bit of tags that have a length before their value."""

_NUMBERS: Final = (_NEXT_FILE, _PREVIOUS_LOG, _MOST_FAMILIES, _IN_GROUP)
_ENDS_TABLE: Final = 1
_BY_BYTES: Final = b"leveldb.BytewiseComparator"
_VARINT_MORE: Final = 0x80
_VARINT_BITS: Final = 64


def read_manifest(path: str, file: BinaryIO) -> Manifest:
    """Read a MANIFEST; a torn tail is as normal as in a log.

    Raises:
        StoreError: a record has an unknown field.
    """
    manifest = Manifest()
    for record in records_of(file):
        if isinstance(record, Unreadable):
            if not record.is_torn:
                manifest.flaw = manifest.flaw or (record.at, record.reason)
            continue
        try:
            _Edit(record.data).apply(manifest)
        except (IndexError, KeyError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path}: the record at byte {record.at:,} is unknown here ({error!r}); "
                "install the version of rocksdict that this version of taskqueue was tried with, 0.3.29"
            ) from None
    return manifest


def without_tables(content: bytes, manifest: Manifest, lost: list[Place]) -> bytes:
    """Append edits to the MANIFEST's content that delete these tables."""
    for family, number in lost:
        edit = _varint(_FAMILY) + _varint(family)
        edit += _varint(_DELETED_TABLE) + _varint(manifest.tables[family, number].level) + _varint(number)
        content += record_bytes(edit, len(content))
    return content


def with_families(content: bytes, families: Mapping[int, str]) -> bytes:
    """Append edits to the MANIFEST's content that add these families, without tables."""
    for number, name in sorted(families.items()):
        edit = _varint(_FAMILY) + _varint(number) + _varint(_FAMILY_ADDED) + _varint(len(name.encode())) + name.encode()
        edit += _varint(_COMPARATOR) + _varint(len(_BY_BYTES)) + _BY_BYTES + _varint(_LOG_NUMBER) + _varint(0)
        content += record_bytes(edit, len(content))
    if families:
        edit = _varint(_MOST_FAMILIES) + _varint(max(families))
        content += record_bytes(edit, len(content))
    return content


class _Edit:
    """Parser of one record."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._family = 0
        self._name = ""

    def apply(self, manifest: Manifest) -> None:
        log_number: int | None = None
        removed: list[int] = []
        added: dict[int, Table] = {}
        dropped = False
        family_is_new = False
        while self._at < len(self._data):
            tag = self._number()
            if tag == _LOG_NUMBER:
                log_number = self._number()
            elif tag == _FIRST_LOG:
                manifest.first_log = max(manifest.first_log, self._number())
            elif tag == _LAST_SEQ:
                manifest.last_seq = max(manifest.last_seq, self._number())
            elif tag == _FAMILY:
                self._family = self._number()
            elif tag == _FAMILY_ADDED:
                self._name, family_is_new = self._bytes().decode(), True
            elif tag == _FAMILY_DROPPED:
                dropped = True
            elif tag == _DELETED_TABLE:
                self._number()
                removed.append(self._number())
            elif tag == _TABLE:
                number, table = self._table()
                added[number] = table
            elif tag in _NUMBERS:
                self._number()
            elif tag == _COMPARATOR or tag & _SAFE_TO_IGNORE:
                self._bytes()
            elif tag == _COMPACT_POINTER:
                self._number()
                self._bytes()
            else:
                raise KeyError(tag)
        if family_is_new:
            manifest.families[self._family] = self._name
        # The family comes after its tables.
        for number in removed:
            manifest.tables.pop((self._family, number), None)
        manifest.tables |= {(self._family, number): table for number, table in added.items()}
        if log_number is not None:
            manifest.log_numbers[self._family] = max(log_number, manifest.log_numbers.get(self._family, 0))
        if dropped:
            manifest.families.pop(self._family, None)
            manifest.log_numbers.pop(self._family, None)
            manifest.tables = {place: table for place, table in manifest.tables.items() if place[0] != self._family}

    def _table(self) -> tuple[int, Table]:
        level, number, file_bytes = self._number(), self._number(), self._number()
        self._bytes()
        self._bytes()
        self._number()
        largest_seq = self._number()
        while self._number() != _ENDS_TABLE:
            self._bytes()
        return number, Table(level, file_bytes, largest_seq)

    def _bytes(self) -> bytes:
        length = self._number()
        end = self._at + length
        if end > len(self._data):
            raise IndexError(end)
        found = self._data[self._at : end]
        self._at = end
        return found

    def _number(self) -> int:
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & ~_VARINT_MORE) << shift
            if byte < _VARINT_MORE:
                return found
            shift += 7
            if shift > _VARINT_BITS:
                raise IndexError(shift)


def _varint(number: int) -> bytes:
    written = bytearray()
    while number >= _VARINT_MORE:
        written.append(number & ~_VARINT_MORE & 0xFF | _VARINT_MORE)
        number >>= 7
    return bytes([*written, number])
