"""The ``taskqueue`` command: ``main`` lists all commands, ``commands`` has a module for each noun.

Here may live what users type and what they are shown. Nothing here decides what becomes of a task.
"""
