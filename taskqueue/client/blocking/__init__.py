"""Client and its namespaces, for code that waits.

Here may live what ``tools/blocking_client.py`` makes of ``asynchronous/``, and nothing else.
"""
