"""Frames and messages: what the bytes on a socket mean; docs/protocol.md says it for people."""

from taskqueue.wire.codec import MAX_MESSAGE_BYTES, decode_request, decode_said, encode, request_number

__all__ = ["MAX_MESSAGE_BYTES", "decode_request", "decode_said", "encode", "request_number"]
