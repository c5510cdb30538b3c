"""Client of a daemon: AsyncClient and its blocking twin, Worker, and their companions; ``taskqueue`` lists their names.

Here may live what speaks to a daemon over its socket. It knows the protocol, and neither the daemon's code nor the
store.
"""
