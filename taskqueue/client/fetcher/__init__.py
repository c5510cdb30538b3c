"""What a client has fetched: how much it asks for, who gets it, how its leases are kept, what was passed on.

Here may live what a fetcher states in its hellos. Nothing here calls a handler.
"""
