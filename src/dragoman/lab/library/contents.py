"""The contents of a version in order, sorted in little memory while its items are stored.

Content ids come in random order. An index that takes them as they come costs
a page of the database for each; sorted, they fill one page after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from tempfile import TemporaryFile
from typing import IO

from dragoman.lab.model import ContentId, ItemId, repeated_id

SORTED_AT_ONCE = 100_000


class SortedContents:
    """Takes the contents of items as they come, and gives them back in order."""

    def __init__(self, sorted_at_once: int = SORTED_AT_ONCE) -> None:
        self._sorted_at_once = sorted_at_once
        self._latest: list[str] = []
        self._runs: list[IO[str]] = []

    def add(self, contents: Iterable[tuple[ContentId, ItemId]]) -> None:
        self._latest += [f"{content} {item_id}\n" for content, item_id in contents]
        if len(self._latest) >= self._sorted_at_once:
            run = TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 - closed with the others
            self._runs.append(run)
            run.writelines(sorted(self._latest))
            self._latest = []

    def close(self) -> None:
        for run in self._runs:
            run.close()

    def batches(self, most: int) -> Iterator[list[tuple[ContentId, ItemId, bool]]]:
        """Each content with its item, and whether the version has had it before.

        A content that comes again has an id of its own, by how often it came.
        """
        for run in self._runs:
            run.seek(0)
        batch: list[tuple[ContentId, ItemId, bool]] = []
        before, occurrence = "", 0
        for line in merge(*self._runs, sorted(self._latest)):
            content, item_id = line.split()
            occurrence = occurrence + 1 if content == before else 1
            before = content
            known = repeated_id(ContentId(content), occurrence)
            batch.append((known, ItemId(item_id), occurrence > 1))
            if len(batch) == most:
                yield batch
                batch = []
        if batch:
            yield batch
