"""Shell around the core: the socket, the clock, the sync thread, signals, the config. The core decides.

Here may live code that touches a clock, a socket, a thread or the process. Nothing here decides about requests.

    main ──► loop ──┬─ network  the socket: frames in, frames out, and which frame is next
                    ├─ engine   ledger + core + syncer, from load until the store fails or the daemon stops
                    ├─ signals  stop and reload
                    └─ clock    time for the core
"""
