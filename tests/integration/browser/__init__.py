"""The pages in a browser: a package of its own, so that a browser ends with its last test; see ``conftest``."""
