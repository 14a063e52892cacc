"""Deletes the rest of removed things and broken imports, in steps, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.lab.audio import AudioFolder
from dragoman.lab.model import VersionId
from dragoman.lab.owners import is_gone, this_process
from dragoman.lab.pruning import Retention, expire, prune
from dragoman.lab.removal import finish_removal
from dragoman.lab.repository import Held, Ousted, datasets, leases, removing
from dragoman.lab.response_cache import trim_answers
from dragoman.observability import get_logger
from dragoman.settings import LabSettings
from dragoman.store import Store, StoreConnection

IMPORT_LEASE_MS = 600_000
"""How long an import may pause, as on a machine that sleeps, before another lab deletes it."""

LOOK_SECONDS = 60.0
FREED_AT_ONCE = 500

TRIM_SECONDS = 3600.0
"""How often the answer cache is trimmed, which counts every answer, and experiments are pruned."""


async def discard_import(store: Store, held: Held, version_id: VersionId) -> None:
    """Remove what a failed import has stored."""

    def some(connection: StoreConnection) -> bool:
        return removing.discard_some(connection, held, version_id, IMPORT_LEASE_MS)

    while await store.write(some):
        pass


async def free_audio(store: Store, folder: AudioFolder, checksums: Iterable[str]) -> None:
    """Remove the files among these that no version and no import refers to.

    An import notes a file in the database before it relies on the file being there. So a file is
    set aside, the database is asked again, and a file that came into use meanwhile is put back.
    """
    listed = iter(checksums)
    while some := await asyncio.to_thread(lambda: list(islice(listed, FREED_AT_ONCE))):
        unused = set(some) - await _used(store, some)
        for sha256 in unused:
            await asyncio.to_thread(folder.set_aside, sha256)
        used_after_all = await _used(store, some)
        for sha256 in some:
            if sha256 in used_after_all:
                await asyncio.to_thread(folder.put_back, sha256)
            else:
                await asyncio.to_thread(folder.drop, sha256)


async def _used(store: Store, checksums: list[str]) -> set[str]:
    return await store.read(lambda c: datasets.used_audio(c, checksums))


class Cleaner:
    """Finishes interrupted removals, and deletes imports whose process is gone.

    It looks when the lab starts, and then regularly, for what other processes left.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        audio_folder: AudioFolder | None = None,
        *,
        settings: LabSettings | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings or LabSettings()
        self._trimmed_at: float | None = None
        self._audio_folder = audio_folder
        self._audio_looked_at = False
        self._log = get_logger(__name__, clock)
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            try:
                await self.clean()
            except StoreError as error:
                self._log.warning("lab_cleaning_waits", reason=error.message)
            except Exception:
                self._log.exception("lab_cleaning_failed")
            await asyncio.sleep(LOOK_SECONDS)

    async def clean(self) -> None:
        """Delete everything that is left over now."""
        was_something = not self._audio_looked_at
        for kind, removed_id in await self._store.read(removing.pending):
            await finish_removal(self._store, kind, removed_id)
            was_something = True
        for found, is_over in await self._store.read(_imports):
            if is_over or is_gone(found.owner):
                await self._discard(found)
                was_something = True
        if was_something and self._audio_folder is not None:
            await self._free_audio(self._audio_folder)
        now = self._clock.monotonic()
        if self._trimmed_at is None or now - self._trimmed_at >= TRIM_SECONDS:
            await trim_answers(self._store, self._settings, self._clock.now_ms())
            await self._prune()
            self._trimmed_at = now

    async def _prune(self) -> None:
        """Remove what the settings do not keep, of experiments that are over and of others."""
        settings = self._settings
        retention = Retention(settings.retention_days, settings.retention_experiments)
        if retention.is_unlimited:
            return
        removed = [one async for one in prune(self._store, retention)]
        if removed:
            self._log.info("lab_experiments_pruned", experiments=len(removed))
        async for one in expire(self._store, retention):
            self._log.info(
                "lab_results_expired",
                experiment_id=one.experiment_id,
                runs=one.runs,
                items=one.items,
            )

    async def _free_audio(self, folder: AudioFolder) -> None:
        """Remove the audio of imports that are over, and of versions that are gone."""
        waiting = await asyncio.to_thread(folder.imports)
        under_way = {found.name for found, _ in await self._store.read(_imports)}
        for version_id in waiting:
            if removing.import_lease(version_id) not in under_way:
                await asyncio.to_thread(folder.drop_incoming, version_id)
        await free_audio(self._store, folder, folder.checksums())
        self._audio_looked_at = True

    async def _discard(self, found: Held) -> None:
        owner = this_process()
        held = await self._store.write(lambda c: leases.seize(c, found, owner, IMPORT_LEASE_MS))
        if held is None:
            return  # another process was quicker, or the import is alive after all
        version_id = VersionId(found.name.removeprefix(removing.IMPORTS))
        try:
            await discard_import(self._store, held, version_id)
        except Ousted:
            return
        self._log.info("lab_import_cleared_away", version_id=version_id)


def _imports(connection: StoreConnection) -> list[tuple[Held, bool]]:
    return leases.held_under(connection, removing.IMPORTS)
