"""What changed from one version of a dataset to another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import msgspec

from dragoman.lab.library.export import pages
from dragoman.lab.library.library import Library
from dragoman.lab.model import ContentId, DatasetVersion, Item, VersionId, content_id

MOST_NAMED = 100
"""How many added and removed items are shown; all are counted."""


class DatasetDifference(msgspec.Struct, frozen=True):
    """The difference by content: the position of an item does not matter."""

    unchanged: int
    added: int
    removed: int
    added_items: tuple[Item, ...]
    removed_items: tuple[Item, ...]


async def difference(
    library: Library, before: DatasetVersion, after: DatasetVersion
) -> DatasetDifference:
    """The items that the later version added and removed.

    The versions are compared some items at a time, by their content ids.
    """
    if before.content is None or after.content is None:
        return await _difference_by_reading(library, before, after)
    removed, gone = await _only_in(library, before, after)
    added, come = await _only_in(library, after, before)
    return DatasetDifference(before.items - removed, added, removed, come, gone)


async def _only_in(
    library: Library, version: DatasetVersion, other: DatasetVersion
) -> tuple[int, tuple[Item, ...]]:
    """How many items of a version the other lacks, and some of them."""
    number = 0
    named: list[ContentId] = []
    async for contents in _contents(library, version.version_id):
        there = await library.contents_among(other.version_id, contents)
        missing = [content for content in contents if content not in there]
        number += len(missing)
        named += missing[: MOST_NAMED - len(named)]
    return number, tuple(await library.items_by_content(version.version_id, named))


async def _contents(library: Library, version_id: VersionId) -> AsyncIterator[Sequence[ContentId]]:
    after = ""
    while some := await library.contents(version_id, after=after):
        yield some
        after = some[-1]


async def _difference_by_reading(
    library: Library, before: DatasetVersion, after: DatasetVersion
) -> DatasetDifference:
    """The difference where a version was stored before the contents of items were known."""
    left: Counter[ContentId] = Counter()
    async for items in pages(library, before):
        left.update(await asyncio.to_thread(_contents_of, items))
    unchanged = added = 0
    added_items: list[Item] = []
    async for items in pages(library, after):
        for item, content in zip(items, await asyncio.to_thread(_contents_of, items), strict=True):
            if left[content]:
                left[content] -= 1
                unchanged += 1
                continue
            added += 1
            if len(added_items) < MOST_NAMED:
                added_items.append(item)
    removed = left.total()
    removed_items: list[Item] = []
    async for items in pages(library, before):
        if len(removed_items) == min(MOST_NAMED, removed):
            break
        for item, content in zip(items, await asyncio.to_thread(_contents_of, items), strict=True):
            if left[content] and len(removed_items) < MOST_NAMED:
                left[content] -= 1
                removed_items.append(item)
    return DatasetDifference(unchanged, added, removed, tuple(added_items), tuple(removed_items))


def _contents_of(items: Sequence[Item]) -> list[ContentId]:
    return [content_id(item.turns) for item in items]
