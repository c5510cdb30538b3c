"""The ``taskqueue`` command: one module a command group, see ``main``."""
