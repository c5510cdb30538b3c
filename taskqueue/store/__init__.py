"""Keeps what the core decides: a Store of ordered bytes (in memory, RocksDB) and the Ledger of tasks on top
of it.

Kept ──changes──► Batch ──► Store ──► pairs of bytes ──lookup──► Found
             └──────── layout: what the bytes mean ───────┘
"""
