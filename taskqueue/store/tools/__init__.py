"""What people do with a store: figures, checks, copies, exports and imports.

Here may live what reads a whole store or makes a new one, in bounded memory. The daemon's turn needs none of it.
"""
