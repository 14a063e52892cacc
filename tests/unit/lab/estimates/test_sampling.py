"""Which items of a dataset are tried."""

from __future__ import annotations

from collections import Counter
from random import Random

from dragoman.lab.estimates import drawn_from, positions
from dragoman.lab.estimates.sampling import choices
from dragoman.lab.model import Turn


def test_a_file_that_is_read_once_and_a_stored_dataset_give_the_same_items() -> None:
    for count in [*range(40), 1000, 5000]:
        every: list[tuple[Turn, ...]] = [({"n": n},) * (1 + n % 2) for n in range(count)]
        batches = [every[at : at + 7] for at in range(0, count, 7)]
        drawn = drawn_from(batches)
        assert [turns[0]["n"] for turns in drawn.sample] == positions(count)
        assert (drawn.items, drawn.turns) == (count, sum(map(len, every)))
        assert len(positions(count)) == min(count, 3)
        assert len(set(positions(count))) == min(count, 3)


def test_every_item_has_the_same_chance() -> None:
    times, count = 6000, 20
    seen: Counter[int] = Counter()
    for seed in range(times):
        kept: dict[int, int] = {}
        for place, position in choices(Random(seed)):
            if position >= count:
                break
            kept[place] = position
        seen.update(kept.values())
    for position in range(count):
        # 3 of 20; five standard deviations either way.
        assert abs(seen[position] / times - 0.15) < 5 * (0.15 * 0.85 / times) ** 0.5, position


def test_the_last_items_of_ten_million_are_reached_at_once() -> None:
    assert max(positions(10_000_000)) > 1000
