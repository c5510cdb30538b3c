"""What slots cost: see ``__main__``."""
