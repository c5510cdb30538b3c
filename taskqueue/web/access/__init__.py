"""Identity and rights of visitors.

Here may live what tells visitors apart and keeps strangers out: tokens, sessions, headers.
"""
