"""One module a command of ``taskqueue``, imported when it is called; see ``main``.

Here may live what one command does. What several need is in ``input`` and ``output``.
"""
