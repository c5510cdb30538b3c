"""What a store in PostgreSQL costs, beside one in a folder.

Here may live benchmarks that need a database's server; it is Debian's, with the settings of ``peers.ours_postgres``.
"""
