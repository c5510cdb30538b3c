"""The operations: a module for each kind of thing that they are about.

Here may live rows and nothing else.
"""
