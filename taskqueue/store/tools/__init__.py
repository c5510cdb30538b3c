"""What people do with a store: figures, checks, copies, exports, imports and repairs.

Here may live what reads a whole store or makes a new one, in bounded memory. The daemon's turn needs none of it.
Only a repair reads past damage, and only that of a database changes the store that it looks at.
"""
