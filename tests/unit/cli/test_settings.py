"""Settings as they are written on the command line."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.cli.settings import in_words, parse


def test_settings_are_numbers_and_lists_of_numbers() -> None:
    words = ["rate=0.5", "burst=10", "retries=3", "retry_delay=30,60", "max_queue=inf"]

    assert parse(words) == {
        "rate": 0.5,
        "burst": 10,
        "retries": 3,
        "retry_delay": [30.0, 60.0],
        "max_queue": float("inf"),
    }


def test_a_single_delay_is_a_list_too() -> None:
    assert parse(["retry_delay=30"]) == {"retry_delay": [30.0]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rate"], '"rate" is not of the form name=value'),
        (["=5"], '"=5" is not of the form name=value'),
        (["rate="], 'rate must be a number, not ""'),
        (["rate=five"], 'rate must be a number, not "five"'),
        (["rate=nan"], 'rate must be a number, not "nan"'),
        (["rate=1_000"], 'rate must be a number, not "1_000"'),
        (["retry_delay=30,,60"], 'retry_delay must be numbers with commas between them, not "30,,60"'),
        (["rate=1", "rate=2"], "rate is given twice"),
    ],
)
def test_what_can_not_be_read_is_refused_by_name(words: list[str], says: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        parse(words)

    assert says in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from(["rate", "burst"]), st.floats(0, 1e9) | st.integers(0, 10**9) | st.just(float("inf"))
    )
)
def test_what_is_shown_can_be_given_back(settings: dict[str, float]) -> None:
    assert parse(in_words(settings).split()) == settings
