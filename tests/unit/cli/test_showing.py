"""How commands print facts."""

from __future__ import annotations

from dragoman.cli.showing import counted


def test_one_thing_is_not_many() -> None:
    assert [counted(number, "job") for number in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
