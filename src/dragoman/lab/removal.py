"""Removes what users no longer see, a few rows in each transaction."""

from __future__ import annotations

from dragoman.lab.repository import removing
from dragoman.store import Store


async def finish_removal(store: Store, kind: removing.RemovedKind, removed_id: str) -> None:
    """Remove the rest of something that users no longer see."""
    while await store.write(lambda c: removing.remove_some(c, kind, removed_id)):
        pass
