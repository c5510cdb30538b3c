"""Commands of ``taskqueue``: a module per noun, or per large command, imported when one is called (``main.MODULES``).

    tasks       task                        fetchers    fetcher
    projects    project                     operations  operation; what begins operations
    slots       slot                        status      status, top
    flows       flow                        store       store; its copies and exports are in store_copies

Other modules are named like their commands.

Here may live what a command does. What several need is in ``input`` and ``output``.
"""
