"""Headers of every response: what a browser may do with it."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS: Final = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Other sites learn nothing of our addresses. With no-referrer a browser would say "Origin: null" of our own forms.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
)

KEPT: Final = "no-cache"
"""May be kept, and is asked for again, so that nobody runs the scripts of an older version."""

NOT_KEPT: Final = "no-store"


def with_headers(send: Send, *, is_kept: bool) -> Send:
    """Send with these headers.

    Args:
        is_kept: a browser may keep the response; else nobody does.
    """

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS:
                headers[name] = value
            headers["Cache-Control"] = KEPT if is_kept else NOT_KEPT
        await send(message)

    return sending
