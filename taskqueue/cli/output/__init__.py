"""What commands show: tables, JSON, the screen of ``taskqueue top``. It goes through ``taskqueue.terminal``.

Here may live what turns the daemon's views into rows. Nothing here asks the daemon.
"""
