"""The daemon's one socket: connections and their cost, the order in which frames are heard, and sending.

Here may live code that handles frames and connections. Nothing here interprets requests.
"""
