"""Cost of slots; see ``__main__``."""
