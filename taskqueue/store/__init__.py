"""Persistence of the core's decisions: a Store of ordered bytes (RocksDB, PostgreSQL) and the Ledger on top of it.

Here may live code that knows bytes, files and the storage engine. Nothing here decides about tasks.

WriteSet ──batch──► Batch ──► Store ──► keys and values ──lookup──► Found
              └───────── layout: meaning of the bytes ─────────┘
"""
