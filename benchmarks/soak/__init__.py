"""Soak of a daemon; see ``__main__``."""
