"""A store in RocksDB: written by one process, readable by others.

Here may live code that opens databases, reads and writes them, and interprets the engine's errors.
"""
