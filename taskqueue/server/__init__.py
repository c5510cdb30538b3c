"""Runs the turn: the socket, the clock, the sync thread, signals, the config. The core decides.

Here may live what touches a clock, a socket, a thread or the process. What a request leads to is never decided here.

main ──► loop ──┬─ network  the socket: frames in, frames out; whose frame is heard next
                ├─ engine   ledger + core + syncer, from load until the store fails or the daemon stops
                ├─ signals  stop and reload
                └─ clock    the only one who reads the time
"""
