"""Meaning of the bytes in a store: keys, values, formats, and how they are read in their orders.

Here may live encoding, decoding and reading; nothing here knows which engine has the bytes.

    layout     families, keys and values of everything stored; projects, fetchers and leases need no more
    a noun     tasks, edges, slots, flows, operations, insight: how a turn looks them up and writes them
    format     format version of a store; older ones are migrated
"""
