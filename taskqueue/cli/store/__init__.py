"""The commands below ``taskqueue store``, which look at folders and ask no daemon but for their copies.

Here may live one module for some of them each.
"""
