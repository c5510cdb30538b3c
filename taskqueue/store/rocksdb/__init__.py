"""A store in RocksDB: for writing by one process, for looking by others.

Here may live what opens databases, reads and writes in them, and says what the engine's errors mean.
"""
