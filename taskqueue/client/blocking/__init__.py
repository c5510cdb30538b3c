"""Client and its namespaces, for blocking code.

Here may live only what ``tools/blocking_client.py`` makes from ``asynchronous/``.
"""
