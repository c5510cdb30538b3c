"""The files of a store, looked at without the engine that writes them: folder, locks, logs, damage.

Here may live what is done with files before RocksDB has opened them, or while another process has.
"""
