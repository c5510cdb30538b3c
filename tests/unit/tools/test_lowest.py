"""The lowest versions of ``make lowest`` are those that setup.cfg allows."""

from __future__ import annotations

from tools.lowest import lowest


def test_each_requirement_has_a_lowest_version_and_extras_of_a_package_are_no_part_of_its_name() -> None:
    assert {"click==8.2", "google-crc32c==1.6", "psycopg==3.2"} <= set(lowest())
