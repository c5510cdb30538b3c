"""What the bytes in a store mean: keys, values, formats, and how they are read in their orders.

Here may live encoding, decoding and reading; nothing here knows which engine has the bytes.

    layout     families, keys and values of all that is stored; projects, fetchers and leases need no more than this
    a noun     tasks, edges, slots, flows, operations, insight: how a turn looks them up, and how it writes them
    format     which version of all this a store has; older ones are migrated
"""
