"""What the machine has: memory, open files, room on the disk.

Here may live what measures it, and what is reckoned from that.
"""
