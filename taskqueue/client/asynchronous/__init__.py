"""AsyncClient and its namespaces, a file a noun. ``blocking/`` is made of this folder by ``tools/blocking_client.py``.

Here may live methods that users call, each with what it means to them. How a request is sent, waited for and shared is
in ``connection/``, ``tasks/`` and ``fetcher/``.
"""
