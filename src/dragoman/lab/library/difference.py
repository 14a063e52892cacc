"""What changed from one version of a dataset to another."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import msgspec

from dragoman.lab.library.export import pages
from dragoman.lab.library.library import Library
from dragoman.lab.model import DatasetVersion, Item

MOST_NAMED = 100
"""So many items are shown of those that came and of those that went; all are counted."""

_canonical = msgspec.json.Encoder(order="sorted").encode


class Difference(msgspec.Struct, frozen=True):
    """Items by what they hold: where they stand in their version makes no difference."""

    unchanged: int
    added: int
    removed: int
    added_items: tuple[Item, ...]
    removed_items: tuple[Item, ...]


async def difference(library: Library, before: DatasetVersion, after: DatasetVersion) -> Difference:
    """Which items the later version has more, and which it has no more."""
    left: Counter[bytes] = Counter()
    async for items in pages(library, before):
        left.update(map(_content, items))
    unchanged = added = 0
    added_items: list[Item] = []
    async for items in pages(library, after):
        for item in items:
            content = _content(item)
            if left[content]:
                left[content] -= 1
                unchanged += 1
                continue
            added += 1
            if len(added_items) < MOST_NAMED:
                added_items.append(item)
    return Difference(
        unchanged,
        added,
        left.total(),
        tuple(added_items),
        await _some(library, before, left),
    )


async def _some(
    library: Library, version: DatasetVersion, wanted: Counter[bytes]
) -> tuple[Item, ...]:
    """The first items of a version that are among the wanted ones, each as often as wanted."""
    found: list[Item] = []
    async for items in pages(library, version):
        for item in items:
            content = _content(item)
            if wanted[content] and len(found) < MOST_NAMED:
                wanted[content] -= 1
                found.append(item)
        if len(found) == MOST_NAMED:
            break
    return tuple(found)


def _content(item: Item) -> bytes:
    return blake2b(_canonical(item.turns), digest_size=16).digest()
