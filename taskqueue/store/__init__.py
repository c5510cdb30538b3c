"""Keeps what the core decides: a Store of ordered bytes (RocksDB, PostgreSQL) and the Ledger on top of it.

Here may live what knows bytes, files and the engine that keeps them. Nothing here decides what becomes of a task.

WriteSet ──batch──► Batch ──► Store ──► keys and values ──lookup──► Found
              └───────── layout: what the bytes mean ─────────┘
"""
