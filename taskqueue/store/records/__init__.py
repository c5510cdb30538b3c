"""What the bytes in a store mean: keys, values, formats, and how they are read in their orders.

Here may live encoding, decoding and reading; nothing here knows which engine has the bytes.
"""
