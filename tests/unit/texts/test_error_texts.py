"""Texts of errors: how long ones are shortened, and which line says what went wrong."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.texts.error_texts import KIND_CHARS, TEXT_BYTES, cut_text, kind_in, kind_line


def raised(error: Exception) -> str:
    """Return a traceback as Python prints it."""
    try:
        raise error
    except Exception as caught:
        return "".join(traceback.format_exception(caught))


def raised_while(error: Exception, other: Exception) -> str:
    try:
        raise other
    except Exception:
        return raised(error)


def noted(error: Exception, note: str) -> Exception:
    error.add_note(note)
    return error


@given(st.text(max_size=TEXT_BYTES // 4))
def test_a_text_that_fits_stays_as_it_is(text: str) -> None:
    assert cut_text(text) == text


@pytest.mark.parametrize("character", ["x", "é", "€", "🕷", "\ud800"])
@pytest.mark.parametrize("shift", range(4))
def test_head_and_tail_of_a_long_text_stay_with_how_much_is_left_out(character: str, shift: int) -> None:
    shown = character.encode(errors="replace").decode()

    head, mark, tail = cut_text("-" * shift + character * 3000 + "end").split("\n")

    assert head.strip("-") == shown * len(head.strip("-"))
    assert tail.endswith(f"{shown}end")
    left_out = int(mark.split()[1].replace(",", ""))
    assert len(head) + len(tail) + left_out == shift + 3000 + 3
    assert len(f"{head}\n{mark}\n{tail}".encode()) <= TEXT_BYTES


@given(st.text(min_size=TEXT_BYTES - 8, max_size=TEXT_BYTES + 8))
def test_what_is_cut_is_not_cut_again(text: str) -> None:
    assert cut_text(cut_text(text)) == cut_text(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", ""),
        ("  no title ", "no title"),
        ("page 3\nno title\n", "no title"),
        ('Traceback:\n  File "x.py", line 1\nValueError: no title\n', "ValueError: no title"),
        (
            "TypeError: x is no function\n    at parse (a.js:1:2)\n    at run (a.js:9:1)",
            "TypeError: x is no function",
        ),
        ("java.io.IOException: reset\n\tat a.B.c(B.java:1)\r\n", "java.io.IOException: reset"),
        ("page.goto: Timeout 30000ms exceeded.\nCall log:\n  - navigating to ", "page.goto: Timeout 30000ms exceeded."),
        (raised(OSError("no table\n[SQL: …]\n(Background at: https://e/20/e3q8)")), "OSError: no table"),
        (raised(ValueError("bad\nServer: nginx")), "ValueError: bad"),
        (raised(TimeoutError()), "TimeoutError"),
        (raised(noted(ValueError("bad"), "Hint: none")), "ValueError: bad"),
        (raised(SyntaxError("invalid", ("page.py", 1, 1, "a b", 1, 2))), "SyntaxError: invalid"),
        (raised_while(TimeoutError(), ValueError("bad")), "TimeoutError"),
        (raised(ExceptionGroup("two", [ValueError(1), OSError(2, "no")])), "ExceptionGroup: two (2 sub-exceptions)"),
        (
            raised_while(ExceptionGroup("one", [ValueError(1)]), KeyError("a")),
            "ExceptionGroup: one (1 sub-exception)",
        ),
        ("g exception:\n\n" + raised(ValueError("bad")), "ValueError: bad"),
        ("x" * 2000, "x" * KIND_CHARS),
        ("caf\udce9", "caf?"),
    ],
)
def test_the_line_that_says_what_went_wrong_is_found(text: str, kind: str) -> None:
    assert kind_in(text) == kind


def test_a_kind_is_one_line() -> None:
    assert kind_line("\n HTTP 503 \nServer: nginx") == "HTTP 503"
    assert kind_line("x" * 2000) == "x" * KIND_CHARS
