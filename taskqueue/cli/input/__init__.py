"""Parsers of what users write on the command line and in files, and of the keys that they press.

Here may live options and parsers. All is checked before anything is sent; errors name the argument, or file and line.
"""
