"""Operators' tools for a store: figures, checks, copies, exports, imports and repairs.

Here may live code that reads a whole store or makes a new one, in bounded memory. The daemon's turn needs none of it.
Only a repair reads past damage, and only a database's repair changes the damaged store itself.
"""
