"""The words in which a terminal and a page say the same: each is here once, so that both say it alike.

Here may live what makes words, numbers and orders of the daemon's views; nothing here knows a terminal or a page.
"""
