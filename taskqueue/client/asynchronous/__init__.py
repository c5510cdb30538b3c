"""AsyncClient and its namespaces, one file per noun. ``tools/blocking_client.py`` makes ``blocking/`` from this folder.

Here may live methods that users call, each with its meaning to them. ``connection/``, ``tasks/`` and ``fetcher/`` say
how a request is sent, waited for and shared.
"""
