"""Words, numbers and orders that the terminal and the dashboard share, so that both say the same.

Here may live what turns the daemon's replies into texts; nothing here knows a terminal or the dashboard.
"""
