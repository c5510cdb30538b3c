"""Reading settings: valid ones are taken, all others reported in the order of the keys."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal

import pytest
from msgspec import Meta, Struct

from taskqueue.errors import Rejected
from taskqueue.settings import reader
from taskqueue.settings.description import DURATION, DURATION_SAID, SIZE, described
from taskqueue.texts import suggestions


class Job(Struct, frozen=True):
    """Table of which there are several by name."""

    ONE_OF: ClassVar = ("at", "every")

    at: str = ""
    every: Annotated[str, Meta(extra=DURATION_SAID)] = ""


class Section(Struct, frozen=True):
    """Section with a setting of each form."""

    count: Annotated[int, Meta(ge=1)] = 1
    rate: Annotated[float, Meta(ge=0)] = 1.0
    room: Annotated[int, Meta(ge=0, extra=SIZE)] = 0
    pause: Annotated[float, Meta(ge=0, extra=DURATION)] | Literal["auto"] = "auto"
    wait: Annotated[float, Meta(gt=0, le=60, extra=DURATION)] = 1.0
    waits: Annotated[tuple[Annotated[float, Meta(ge=0, extra=DURATION)], ...], Meta(min_length=1, max_length=3)] = (1,)
    flag: bool = False
    word: Annotated[str, Meta(extra={"words": "a word", "secret": True})] = ""
    job: Job | None = None
    jobs: dict[str, Job] = {}
    free: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.word == "forbidden":
            raise ValueError("word")


def read(table: dict[str, Any]) -> tuple[Section, list[str]]:
    found: list[str] = []
    return reader.read("here", table, Section, found.append), found


def test_what_can_be_used_is_taken_in_plain_numbers() -> None:
    said = {
        "count": 2,
        "rate": 3,
        "room": "1 KiB",
        "pause": "1m",
        "wait": "5s",
        "waits": ["1m", 2],
        "jobs": {"a": {"every": 90}},
    }

    expected = Section(2, 3.0, 1024, 60.0, 5.0, (60.0, 2.0), jobs={"a": Job(every="90s")})
    assert read(said) == (expected, [])


def test_problems_come_in_the_order_of_the_keys_and_the_rest_is_taken() -> None:
    said = {
        "wait": "2m",
        "cuont": 5,
        "jobs": {"a": {"at": 7, "evry": 1}, "b": 7, "c": {}, "d": {"every": "5m"}},
        "word": "forbidden",
        "count": 3,
    }

    section, found = read(said)
    assert section == Section(count=3, jobs={"a": Job(), "c": Job(), "d": Job(every="5m")})
    assert found == [
        'here.wait must be a duration such as "90s" or "12h", or a number of seconds of more than 0 and at most 60, '
        'not "2m"',
        "here.cuont is not a setting; did you mean count?",
        "here.jobs.b must be a section, not 7",
        "here.jobs.a.at must be a text, not 7",
        "here.jobs.a.evry is not a setting; did you mean every? There are at, every",
        "here.jobs.c: give one of at and every",
        "here.word must be a word",
    ]


def test_a_section_with_a_problem_is_refused_with_the_first_one() -> None:
    with pytest.raises(Rejected) as refused:
        reader.convert({"count": 0, "rate": -1}, Section)

    assert (refused.value.code, refused.value.reason) == (
        "setting",
        "count must be a whole number of at least 1, not 0",
    )


def test_names_like_an_unknown_one_are_sought_for_the_problem_that_is_told_only(monkeypatch: Any) -> None:
    sought: list[str] = []

    def close(name: str, *how: Any) -> list[str]:
        sought.append(name)
        return get_close_matches(name, *how)

    monkeypatch.setattr(suggestions, "get_close_matches", close)
    many: dict[str, Any] = {f"cuont{number}": 1 for number in range(100)}

    with pytest.raises(Rejected, match="cuont0 is not a setting; did you mean count"):
        reader.convert(many | {"jobs": {name: {"at": "x"} | many for name in "ab"}}, Section)

    assert sought == ["cuont0"]


def test_each_setting_has_the_form_in_which_it_is_written() -> None:
    forms = {name: setting.form for name, setting in described(Section).items()}

    assert forms == {
        "count": "number", "rate": "number", "room": "number", "pause": "duration", "wait": "duration",
        "waits": "durations", "flag": "flag", "word": "text", "job": "table", "jobs": "table", "free": "table",
    }  # fmt: skip


@pytest.mark.parametrize("said", ["auto", 5, "5s"])
def test_a_duration_may_be_a_word_instead(said: Any) -> None:
    assert read({"pause": said}) == (Section(pause="auto" if said == "auto" else 5.0), [])
    assert described(Section)["pause"].texts == ("auto",)


@pytest.mark.parametrize("said", ["never", -1, True, ["auto"]])
def test_a_duration_that_may_be_a_word_is_no_other_one(said: Any) -> None:
    _, (problem,) = read({"pause": said})

    assert problem.startswith(
        'here.pause must be a duration such as "90s" or "12h", a number of seconds of at least 0, or inf, or "auto", '
    )
