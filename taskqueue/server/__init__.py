"""Runs the turn: the socket, the clock, the sync thread, signals, the config. The core decides.

Here may live what touches a clock, a socket, a thread or the process. What a request leads to is never decided here.

main ──► loop ──┬─ router   the socket: frames in, frames out
                ├─ engine   ledger + core + syncer, from load until the store fails or the daemon stops
                ├─ outbox   replies that wait for the disk
                ├─ signals  stop and reload
                └─ clock    the only one who reads the time
"""
