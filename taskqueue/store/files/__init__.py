"""The files of a store, read without the engine that writes them: folder, locks, logs, damage.

Here may live code for files before RocksDB has opened them, or while another process has them open.
"""
