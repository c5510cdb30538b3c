"""What a client has fetched and not yet run: how much it asks for, who gets it, what was passed on.

Here may live what a fetcher states in its hellos. Nothing here calls a handler.
"""
