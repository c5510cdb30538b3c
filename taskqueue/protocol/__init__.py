"""What clients and the daemon say to each other: values without methods, and the one way to make bytes of them.

Here may live: messages, their fields and limits, and what encodes, decodes and checks them. Nothing here knows how the
daemon decides, where it keeps things, or what a client does; docs/reference/protocol.md says the same for other
languages.
"""
