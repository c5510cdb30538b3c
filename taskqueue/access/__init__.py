"""Keys that may connect to a daemon, their roles, and the files that hold them.

Here may live what server, client, web and cli share of it. Nothing here opens a socket or knows the core.
"""
