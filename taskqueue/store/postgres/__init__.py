"""A store in PostgreSQL: for writing by one daemon, for looking by others.

Here may live what connects to a server, reads and writes in its tables, and says what its errors mean. Where it differs
from RocksDB, which has a folder and no server:

| what | differs |
|---|---|
| session | statements of a round trip; errors of the server |
| tables | a table a family, made by the daemon or by a script |
| fence | a row that each write moves on, instead of a lock on a folder |
| prefixes | what was dropped is deleted bit by bit |
| checksums | each row has one; a damaged row is set aside (``damaged_rows``), and all others go on |
| inbox | a table into which producers insert tasks; the daemon takes them up (``postgres_intake``) |
| views | projects, tasks and attempts for people who ask in SQL |

What both have has like names: ``postgres_store`` and ``rocks_store``, ``postgres_snapshot`` and ``rocks_snapshot``, and
among the tools ``postgres_repair`` and ``rocks_repair``.
"""
