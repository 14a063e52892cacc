"""What instances tell each other about themselves adds up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.live.stats_parts import StatsPart, read_part, sum_parts, write_part

counts = st.dictionaries(st.sampled_from(["en", "es", "zh"]), st.integers(1, 99))
numbers = st.integers(0, 10**6)
parts = st.builds(StatsPart, numbers, counts, counts, numbers, numbers, numbers, numbers)


@given(parts)
def test_a_part_is_read_as_it_was_written(part: StatsPart) -> None:
    assert read_part(write_part(part)) == part


@given(st.lists(parts, max_size=5))
def test_the_whole_is_the_sum_of_its_parts(given_parts: list[StatsPart]) -> None:
    whole = sum_parts(given_parts)

    assert whole.sessions == sum(part.sessions for part in given_parts)
    assert whole.jobs_failed == sum(part.jobs_failed for part in given_parts)
    for language in ("en", "es", "zh"):
        spoken = sum(part.as_source.get(language, 0) for part in given_parts)
        heard = sum(part.as_target.get(language, 0) for part in given_parts)
        assert whole.as_source.get(language, 0) == spoken
        assert whole.as_target.get(language, 0) == heard


def test_what_cannot_be_read_is_left_out() -> None:
    assert read_part(b"\xc1 nonsense") is None
