"""Texts from outside, made safe to show."""

from __future__ import annotations

import pytest

from taskqueue.texts.visible_text import visible, visible_lines


@pytest.mark.parametrize(
    "text", ["", "https://a.org/ä?q=1", "Größe 12 µm", "日本語\u3000です", "naïve\u00a0👍", r"a\n", "[red]"]
)
def test_what_can_be_printed_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\u001b]0;owned\u0007"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x7f\x9b31m", r"\u007f\u009b31m"),
        ("\u202eexe.gpj\u2069", r"\u202eexe.gpj\u2069"),
        ("a\u200bb\ufeff\u2060", r"a\u200bb\ufeff\u2060"),
        ("\u2028\u2029\x85", r"\u2028\u2029\u0085"),
        ("\U000e0041", r"\U000e0041"),
        ("\udc80", r"\udc80"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_shown_by_its_number(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_no_character_is_left_that_does_something() -> None:
    everything = "".join(map(chr, [*range(0x3000), *range(0xD800, 0x10000), *range(0xE0000, 0xE1000)]))

    assert visible(visible(everything)) == visible(everything)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in visible(everything))
    assert visible(everything).encode().decode() == visible(everything)


def test_a_text_of_several_lines_keeps_its_line_ends_only() -> None:
    assert visible_lines("a\x1b\r\nb\u2028c\n") == "a\\u001b\\r\nb\\u2028c\n"
