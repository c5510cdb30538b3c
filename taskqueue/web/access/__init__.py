"""Who asks, and whether he may.

Here may live what tells visitors apart and keeps strangers out: tokens, sessions, headers.
"""
