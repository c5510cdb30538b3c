"""Messages between clients and the daemon: values without methods, and the codec that makes bytes of them.

Here may live: messages, their fields and limits, what encodes, decodes and checks them, and what both sides conclude
from them. Nothing here knows how the daemon decides, where it keeps things, or what a client does;
docs/reference/protocol.md describes the same for other languages.
"""
