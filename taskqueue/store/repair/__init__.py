"""A damaged store: what is wrong with it, which tasks are concerned, and what can be saved of it.

Here may live what reads past damage. Nothing here changes the store that it looks at.
"""
