"""Output of commands: tables, JSON, the screen of ``taskqueue top``, all shown through ``taskqueue.terminal``.

Here may live what turns the daemon's replies into rows. Nothing here sends requests.
"""
