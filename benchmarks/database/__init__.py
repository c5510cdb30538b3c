"""Benchmarks of a store in PostgreSQL, beside one in a folder.

They need Debian's PostgreSQL server, with the settings of ``peers.ours_postgres``.
"""
