"""Commands of ``taskqueue``: a module a noun, or a large command, imported when it is called (``main.MODULES``).

    tasks       task                        insight     stats, failures, why, log
    projects    project, cron, wait         daemon      scheduler, reload, stop, config, daemon
    fetchers    fetchers, fetcher           status      status, top, watch
    slots       slot                        store       store; its copies and exports are in store_copies
    flows       flow
    operations  operation                   push, work, web, demo and completion are named like their commands

Here may live what a command does. What several need is in ``input`` and ``output``.
"""
