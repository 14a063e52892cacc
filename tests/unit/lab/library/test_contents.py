"""Contents come back sorted, however many are sorted at once."""

from __future__ import annotations

from contextlib import closing
from random import Random

import pytest

from dragoman.lab.library.contents import SortedContents
from dragoman.lab.model import ContentId, ItemId


@pytest.mark.parametrize("sorted_at_once", [1, 7, 1000])
def test_contents_come_back_in_order_and_repeated_ones_are_counted(sorted_at_once: int) -> None:
    random = Random(7)
    contents = [ContentId(f"i-{random.randrange(40):04x}") for _ in range(200)]
    given = [(content, ItemId(f"i-{number:08x}")) for number, content in enumerate(contents)]
    with closing(SortedContents(sorted_at_once)) as by_content:
        for one in given:
            by_content.add([one])
        found = [one for batch in by_content.batches(9) for one in batch]
    assert len({content for content, _, _ in found}) == 200
    base = [content[: len("i-0000")] for content, _, _ in found]
    assert base == sorted(contents)
    assert [again for _, _, again in found] == [
        number > 0 and base[number] == base[number - 1] for number in range(200)
    ]
    for content in set(contents):
        rows = [item_id for (_, item_id, _), one in zip(found, base, strict=True) if one == content]
        assert rows == [item_id for known, item_id in given if known == content]
