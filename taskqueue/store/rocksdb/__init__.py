"""A store in RocksDB: for writing by one process, for looking by others.

The only folder that may know the engine's types.
"""
