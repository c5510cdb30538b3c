"""What a page's bytes say as text.

    byte order mark ──► charset of the header ──► of the page ──► UTF-8, if that is what it is ──► windows-1252

The order is that of browsers (https://html.spec.whatwg.org/#determining-the-character-encoding). A page that says no
charset is read so that no letter is lost: no byte of it becomes U+FFFD, which would lead to pages that don't exist.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, NamedTuple

ENCODING: Final = re.compile(
    r"utf-(8|16|32)(-[bl]e)?|cp\d{3,4}|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|"
    r"big5hkscs|gb18030|gbk|gb2312|euc_(jp|kr)|shift_jis|iso2022_jp|ascii"
)
"""Python's codecs for what pages are written in, by the Encoding Standard (https://encoding.spec.whatwg.org). Some of
the others are no texts, such as zlib; some take a time that grows with the square of the page, such as punycode."""

WIDE: Final = ("utf-16", "utf-32")
"""A page that can be read before its encoding is known is not written in these, whatever it says."""

WINDOWS_1252: Final = "cp1252"

NOT_ASCII: Final = bytes(range(0x80, 0x100))

LETTERS: Final = {
    byte: bytes([byte]).decode(WINDOWS_1252) for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"
}
"""Letters of windows-1252 where Latin-1 has none. Five bytes are no letters in either, and are left as they are."""

BY_BYTE: Final = "taskqueue-windows-1252"
"""Error handler of codecs: bytes that can't be decoded are read as windows-1252, one by one."""


class PageText(NamedTuple):
    """A page's text, and the encoding that it was read in, by Python's name."""

    text: str
    encoding: str


def page_text(body: bytes, content_type: str = "") -> PageText:
    """Read a page; nothing that it could hold raises an error."""
    from w3lib import encoding as web  # Not above: 50 ms, which most programs need not spend.

    by_mark, mark = web.read_bom(body)
    said = by_mark or web.http_content_type_encoding(content_type) or _declared(body)
    if not said:
        return _guessed(body)
    encoding = said if ENCODING.fullmatch(said) else "utf-8"
    rest = body[len(mark or b"") :]
    return PageText(
        rest.decode(encoding, BY_BYTE) if encoding == WINDOWS_1252 else web.to_unicode(rest, encoding), encoding
    )


def _declared(body: bytes) -> str:
    """What the page itself says."""
    from w3lib.encoding import html_body_declared_encoding

    said = html_body_declared_encoding(body) or ""
    return "" if said.startswith(WIDE) else said


def _guessed(body: bytes) -> PageText:
    """The text of a page that says nothing. A few bad bytes, such as a letter cut in two, don't make it another one."""
    try:
        return PageText(body.decode(), "utf-8")
    except UnicodeDecodeError:
        encoding = "utf-8" if _is_mostly_utf_8(body) else WINDOWS_1252
        return PageText(body.decode(encoding, BY_BYTE), encoding)


def _is_mostly_utf_8(body: bytes) -> bool:
    text = body.decode(errors="replace")
    bad = text.count("\ufffd")
    return len(text) - len(body.translate(None, NOT_ASCII)) > 2 * bad


def _by_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1").translate(LETTERS), error.end


codecs.register_error(BY_BYTE, _by_byte)
