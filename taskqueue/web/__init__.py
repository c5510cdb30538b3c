"""Dashboard, HTTP API and metrics: an ordinary client of the daemon, in a process of its own.

Here may live what serves HTTP. It talks to the daemon by the protocol alone, and never imports the server, the store or
the core. It needs the extra [web].
"""
