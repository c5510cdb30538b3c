"""Fetching side of a client: what it asks for, which caller gets it, how leases are kept, and tasks passed on.

Here may live what a fetcher states in its hellos. Nothing here calls a handler.
"""
