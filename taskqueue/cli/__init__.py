"""The ``taskqueue`` command: ``main`` knows which commands there are, ``commands`` has them, a module a noun.

Here may live what users type and what they are shown. Nothing here decides what becomes of a task.
"""
