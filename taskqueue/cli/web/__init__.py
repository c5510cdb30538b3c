"""What ``taskqueue web`` is told on the command line, and the commands below it.

Here may live its options of more than a word, and one module for some of its commands each.
"""
