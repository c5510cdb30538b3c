"""What people write on the command line and in files, and the keys that they press, checked before anything is sent.

Here may live options and parsers; their errors name the argument, or the line.
"""
