"""Runs the turn: the socket, the clock, the sync thread, signals, the config. The core decides.

main ──► loop ──┬─ router   the socket: frames in, frames out
                ├─ epoch    ledger + core + syncer, from load until the store fails or the daemon stops
                ├─ outbox   replies that wait for the disk
                ├─ signals  stop and reload
                └─ clock    the only one who reads the time
"""
