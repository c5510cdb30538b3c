"""A store in PostgreSQL: written by one daemon, readable by others.

Here may live code that connects to a server, reads and writes its tables, and interprets its errors. Differences from
RocksDB, which has a folder and no server:

| module | difference |
|---|---|
| session | statements in round trips; errors of the server |
| tables | one table per family, made by the daemon or by a script |
| fence | a row that each write advances, instead of a lock on a folder |
| prefixes | dropped ranges are deleted bit by bit |
| checksums | each row has one; a damaged row is set aside (``damaged_rows``), and all others go on |
| inbox | a table into which producers insert tasks; the daemon takes them out (``postgres_intake``) |
| views | projects, tasks and attempts for queries in SQL |

Counterparts have like names: ``postgres_store`` and ``rocks_store``, ``postgres_snapshot`` and ``rocks_snapshot``, and
among the tools ``postgres_repair`` and ``rocks_repair``.
"""
