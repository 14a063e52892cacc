"""The tenants' datasets: every version holds one file's items and never changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import BinaryIO, Literal

import msgspec
from sqlalchemy.exc import IntegrityError

from dragoman.clock import Clock
from dragoman.errors import DatasetInUse, NameTaken, NotFound, StoreError
from dragoman.ids import TenantId, new_id
from dragoman.lab.audio import AudioChanged, AudioFolder, AudioIntake, Files, TakenFile
from dragoman.lab.cleaning import IMPORT_LEASE_MS, discard_import, free_audio
from dragoman.lab.datasets import DatasetReader, Format, RowSchema, Turns
from dragoman.lab.library.contents import SortedContents
from dragoman.lab.model import (
    ContentId,
    Dataset,
    DatasetId,
    DatasetVersion,
    Item,
    ItemId,
    JsonValue,
    VersionId,
    content_id,
    item_id,
    new_item_batch,
)
from dragoman.lab.names import check_name
from dragoman.lab.owners import this_process
from dragoman.lab.removal import finish_removal
from dragoman.lab.repository import Held, Ousted, datasets, leases, removing
from dragoman.settings import LabSettings
from dragoman.store import Store, StoreConnection, Work

CONTENTS_AT_ONCE = 5_000
Schema = Mapping[str, JsonValue]

_canonical = msgspec.json.Encoder(order="sorted").encode


class Imported(msgspec.Struct, frozen=True):
    """The version that an import made or found."""

    version: DatasetVersion
    is_new: bool
    """False when the dataset had a version of the same items and the same schema before."""


class AudioSource(msgspec.Struct, frozen=True):
    """Where the audio is that a dataset's rows name."""

    files: Files
    copy: bool = True
    """Whether the lab keeps copies; else it notes where the files are, and checks each use."""


class ImportProgress(msgspec.Struct):
    """How far an import has come; others look at it while it goes on."""

    stage: Literal["checking", "storing"] = "storing"
    """Whether the items are compared with the versions that are there, or stored."""
    items: int = 0


class StoredAudio(msgspec.Struct, frozen=True):
    """An audio file that a dataset refers to."""

    path: Path
    media_type: str


class _Content:
    """The hash of a version as it is read: its items in their order, and its schema."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=20)
        self.max_turns = 0

    def add(self, items: Sequence[Turns], contents: Sequence[ContentId]) -> None:
        self._hash.update("\n".join((*contents, "")).encode())
        self.max_turns = max(self.max_turns, *(len(turns) for turns in items))

    def of(self, schema: Schema) -> str:
        required = schema.get("required")
        if isinstance(required, list):
            # The order of the columns has no meaning.
            schema = {**schema, "required": sorted(required, key=str)}
        whole = self._hash.copy()
        whole.update(_canonical(schema))
        return whole.hexdigest()


class Library:
    """Imports files, and finds datasets."""

    def __init__(
        self,
        store: Store,
        settings: LabSettings,
        clock: Clock,
        random: Random,
        *,
        audio_folder: AudioFolder | None = None,
    ) -> None:
        """Without a folder for audio, datasets that refer to audio are refused."""
        self._store = store
        self._audio_folder = audio_folder
        self._max_items = settings.max_items
        self._clock = clock
        self._random = random

    async def add(
        self,
        tenant: TenantId,
        name: str,
        file: BinaryIO,
        file_format: Format,
        schema: Schema | None = None,
        audio: AudioSource | None = None,
        progress: ImportProgress | None = None,
    ) -> Imported:
        """Make a dataset of a file; its first version."""
        checked = name.strip()
        check_name(checked, "a dataset")
        await self._refuse_taken(tenant, checked)
        dataset_id = DatasetId(new_id(self._random, "d"))

        def number_it(connection: StoreConnection) -> int:
            made_at_ms = self._clock.now_ms()
            datasets.insert_dataset(connection, tenant, dataset_id, checked, made_at_ms)
            return 1

        try:
            table = _Table(file, file_format, schema, audio, progress or ImportProgress())
            return await self._bring_in(tenant, dataset_id, table, number_it)
        except IntegrityError:
            raise _taken(checked) from None

    async def add_version(
        self,
        tenant: TenantId,
        dataset_id: str,
        file: BinaryIO,
        file_format: Format,
        schema: Schema | None = None,
        audio: AudioSource | None = None,
        progress: ImportProgress | None = None,
    ) -> Imported:
        """Make the next version of a dataset, unless it has one of the same content."""
        found = await self.find(tenant, dataset_id)
        begin = file.tell()
        table = _Table(file, file_format, schema, audio, progress or ImportProgress())
        content = await self._content_of(table)
        known = await self._store.read(
            lambda c: datasets.find_content(c, found.dataset_id, content)
        )
        if known is not None:
            return Imported(known, is_new=False)
        file.seek(begin)

        def number_it(connection: StoreConnection) -> int:
            if not datasets.lock_dataset(connection, found.dataset_id):
                raise _no_dataset(dataset_id)
            return datasets.next_version(connection, found.dataset_id)

        return await self._bring_in(tenant, found.dataset_id, table, number_it)

    async def delete(self, tenant: TenantId, dataset_id: str) -> None:
        """Remove a dataset with all its versions; not while an experiment uses one of them."""
        found = await self.find(tenant, dataset_id)

        def delete(connection: StoreConnection) -> tuple[Sequence[VersionId], Sequence[str]]:
            if not datasets.lock_dataset(connection, found.dataset_id):
                raise _no_dataset(dataset_id)
            version_ids = datasets.lock_versions(connection, found.dataset_id)
            used_by = datasets.using_experiment(connection, version_ids)
            if used_by is not None:
                raise DatasetInUse(
                    f"The experiment {used_by!r} uses the dataset {found.name!r}; delete the "
                    "experiment first, if its results are no longer needed."
                )
            datasets.delete_dataset(connection, found.dataset_id)
            for version_id in version_ids:
                removing.begin(connection, removing.RemovedKind.VERSION, version_id)
            return version_ids, datasets.audio_of_versions(connection, version_ids)

        version_ids, checksums = await self._store.write(delete)
        for version_id in version_ids:
            await finish_removal(self._store, removing.RemovedKind.VERSION, version_id)
        if self._audio_folder is not None:
            await free_audio(self._store, self._audio_folder, checksums)

    @property
    def audio_folder(self) -> AudioFolder | None:
        """Where the audio of datasets is kept."""
        return self._audio_folder

    async def audio(self, tenant: TenantId, dataset_id: str, sha256: str) -> StoredAudio:
        """An audio file that a version of the dataset refers to."""
        found = await self.find(tenant, dataset_id)
        media_type = await self._store.read(
            lambda c: datasets.audio_media_type(c, found.dataset_id, sha256)
        )
        if media_type is None or self._audio_folder is None:
            raise NotFound(f"Dataset {dataset_id} has no audio file with the checksum {sha256}.")
        try:
            path = await asyncio.to_thread(self._audio_folder.find, sha256)
        except AudioChanged as error:
            raise NotFound(f"The audio file cannot be used: {error}.") from None
        return StoredAudio(path, media_type)

    async def find(self, tenant: TenantId, dataset_id: str) -> Dataset:
        """A dataset by its id."""
        found = await self._store.read(
            lambda c: datasets.find_dataset(c, tenant, dataset_id=dataset_id)
        )
        if found is None:
            raise _no_dataset(dataset_id)
        return found

    async def find_named(self, tenant: TenantId, name: str) -> Dataset | None:
        """A dataset by its name."""
        return await self._store.read(lambda c: datasets.find_dataset(c, tenant, name=name))

    async def list(
        self, tenant: TenantId, *, after: str = "", most: int = 100
    ) -> Sequence[Dataset]:
        """The tenant's datasets by name, from the one after `after`."""
        return await self._store.read(
            lambda c: datasets.list_datasets(c, tenant, after=after, most=most)
        )

    async def versions(self, tenant: TenantId, dataset_id: str) -> Sequence[DatasetVersion]:
        """Every version of a dataset, the latest first."""
        found = await self.find(tenant, dataset_id)
        return await self._store.read(lambda c: datasets.versions_of(c, found.dataset_id))

    async def version(
        self, tenant: TenantId, dataset_id: str, number: int | None = None
    ) -> DatasetVersion:
        """A version by its number; the latest without one."""
        every = await self.versions(tenant, dataset_id)
        for version in every:
            if number in (None, version.version):
                return version
        raise NotFound(
            f"Dataset {dataset_id} has no version {number}; its latest is {every[0].version}."
        )

    async def items(
        self, version_id: VersionId, *, after: str = "", most: int = 100
    ) -> Sequence[Item]:
        """Items of a version in order, from the one whose row comes after `after`."""
        return await self._store.read(
            lambda c: datasets.items_of(c, version_id, after=after, most=most)
        )

    async def contents(
        self, version_id: VersionId, *, after: str = "", most: int = 10_000
    ) -> Sequence[ContentId]:
        """What a version holds, in the order of the ids, from the one after `after`."""
        return await self._store.read(
            lambda c: datasets.contents_of(c, version_id, after=after, most=most)
        )

    async def contents_among(
        self, version_id: VersionId, contents: Sequence[ContentId]
    ) -> set[ContentId]:
        """Which of these items, by what they hold, the version has."""
        found = await self._store.read(lambda c: datasets.rows_of_contents(c, version_id, contents))
        return {ContentId(content) for content in found}

    async def items_by_content(
        self, version_id: VersionId, contents: Sequence[ContentId]
    ) -> Sequence[Item]:
        """The items of a version that hold this."""
        return await self._store.read(lambda c: datasets.items_by_content(c, version_id, contents))

    async def _refuse_taken(self, tenant: TenantId, name: str) -> None:
        if await self.find_named(tenant, name) is not None:
            raise _taken(name)

    async def _content_of(self, table: _Table) -> str:
        """The content of a file, which is read and not stored."""
        intake = None if table.audio is None else AudioIntake(table.audio.files)
        reader = await asyncio.to_thread(self._reader, table, intake)
        batches = _with_contents(reader)
        content = _Content()
        table.progress.stage = "checking"
        while (some := await asyncio.to_thread(next, batches, None)) is not None:
            content.add(*some)
            table.progress.items = reader.items
        return content.of(reader.schema())

    def _reader(self, table: _Table, intake: AudioIntake | None) -> DatasetReader:
        row_schema = None if table.schema is None else RowSchema(table.schema)
        return DatasetReader(
            table.file,
            table.file_format,
            schema=row_schema,
            audio=intake,
            max_items=self._max_items,
        )

    def _intake(self, table: _Table, version_id: VersionId) -> AudioIntake | None:
        if table.audio is None or self._audio_folder is None:
            return None
        return AudioIntake(table.audio.files, self._audio_folder, version_id, copy=table.audio.copy)

    async def _bring_in(
        self,
        tenant: TenantId,
        dataset_id: DatasetId,
        table: _Table,
        number_it: Callable[[StoreConnection], int],
    ) -> Imported:
        """Store the items, and last the version, which makes them visible.

        A lease marks the import as under way: the next lab on the database deletes what a killed
        import leaves.
        """
        version_id = VersionId(new_id(self._random, "v"))
        intake = self._intake(table, version_id)
        reader = await asyncio.to_thread(self._reader, table, intake)
        name = removing.import_lease(version_id)
        owner = this_process()
        held = await self._store.write(lambda c: leases.take(c, name, owner, IMPORT_LEASE_MS))
        assert held is not None, "the version is new"
        try:
            table.progress.stage, table.progress.items = "storing", 0
            content = await self._store_items(
                tenant, version_id, reader, intake, held, table.progress
            )
        except BaseException as error:
            # Shielded: the caller may have been cancelled.
            await asyncio.shield(self._discard(held, version_id, intake))
            if isinstance(error, Ousted):
                raise _stood_still() from error
            raise

        def show(connection: StoreConnection) -> Imported:
            leases.require(connection, held)
            version = DatasetVersion(
                version_id=version_id,
                dataset_id=dataset_id,
                version=0,
                schema=reader.schema(),
                items=reader.items,
                max_turns=content.max_turns,
                created_at_ms=self._clock.now_ms(),
                content=content.of(reader.schema()),
            )
            number = number_it(connection)
            same = datasets.find_content(connection, dataset_id, version.content or "")
            if same is not None:  # another import of the same file was quicker
                return Imported(same, is_new=False)
            version = msgspec.structs.replace(version, version=number)
            datasets.insert_version(connection, tenant, version)
            leases.forget(connection, held)
            return Imported(version, is_new=True)

        try:
            shown = await self._store.write(show)
        except Exception as error:
            # Not when the caller was cancelled: this write goes on by itself and needs its items.
            await self._discard(held, version_id, intake)
            if isinstance(error, Ousted):
                raise _stood_still() from error
            raise
        if not shown.is_new:
            await self._discard(held, version_id, intake)
        elif self._audio_folder is not None and intake is not None:
            await asyncio.to_thread(self._audio_folder.drop_incoming, version_id)
        return shown

    async def _store_items(
        self,
        tenant: TenantId,
        version_id: VersionId,
        reader: DatasetReader,
        intake: AudioIntake | None,
        held: Held,
        progress: ImportProgress,
    ) -> _Content:
        batches = _with_contents(reader)
        batch_name = new_item_batch(self._random)
        content = _Content()
        position = 0
        with closing(SortedContents()) as by_content:
            while (some := await asyncio.to_thread(next, batches, None)) is not None:
                content.add(*some)
                items = [
                    Item(item_id(batch_name, position + number), turns, known)
                    for number, (turns, known) in enumerate(zip(*some, strict=True))
                ]
                position += len(items)
                progress.items = position
                by_content.add(
                    (known, one.item_id) for known, one in zip(some[1], items, strict=True)
                )
                await self._write(held, _inserting(tenant, version_id, items))
                if intake is not None:
                    await self._keep(held, version_id, intake.fresh())
            ordered = by_content.batches(CONTENTS_AT_ONCE)
            while (few := await asyncio.to_thread(next, ordered, None)) is not None:
                await self._write(held, _inserting_contents(version_id, few))
        return content

    async def _keep(self, held: Held, version_id: VersionId, files: Sequence[TakenFile]) -> None:
        """Keep audio files, once the database knows of them: what it knows is not freed."""
        assert self._audio_folder is not None
        noted = [(file.sha256, file.media_type) for file in files]
        if not noted:
            return
        await self._write(held, lambda c: datasets.insert_audio(c, version_id, noted))
        await asyncio.to_thread(_place, self._audio_folder, files)

    async def _write(self, held: Held, work: Work[None]) -> None:
        """Write under the lease of an import, and keep it."""

        def leased(connection: StoreConnection) -> None:
            leases.renew(connection, held, IMPORT_LEASE_MS)
            work(connection)

        await self._store.write(leased)

    async def _discard(self, held: Held, version_id: VersionId, intake: AudioIntake | None) -> None:
        """Remove the items and the audio of a failed import.

        What cannot be removed now stays invisible, and the next lab removes it.
        """
        with suppress(StoreError, Ousted):
            await discard_import(self._store, held, version_id)
            if intake is not None and self._audio_folder is not None:
                await asyncio.to_thread(self._audio_folder.drop_incoming, version_id)
                await free_audio(self._store, self._audio_folder, sorted(intake.checksums))


class _Table(msgspec.Struct, frozen=True):
    """A dataset file, and what was said about it."""

    file: BinaryIO
    file_format: Format
    schema: Schema | None
    audio: AudioSource | None
    progress: ImportProgress


def _place(folder: AudioFolder, files: Sequence[TakenFile]) -> None:
    for file in files:
        if file.staged is not None:
            folder.keep(file.sha256, file.staged)
        elif file.path is not None:
            folder.link(file.sha256, file.path)


def _inserting(tenant: TenantId, version_id: VersionId, items: Sequence[Item]) -> Work[None]:
    return lambda connection: datasets.insert_items(connection, tenant, version_id, items)


def _inserting_contents(
    version_id: VersionId, contents: Sequence[tuple[ContentId, ItemId, bool]]
) -> Work[None]:
    return lambda connection: datasets.insert_contents(connection, version_id, contents)


def _with_contents(reader: DatasetReader) -> Iterator[tuple[list[Turns], list[ContentId]]]:
    """Batches of items, each item with the id that follows from it."""
    for batch in reader:
        yield batch, [content_id(turns) for turns in batch]


def _taken(name: str) -> NameTaken:
    return NameTaken(
        f"There is a dataset {name!r} already; choose another name, or add a version to it."
    )


def _no_dataset(dataset_id: str) -> NotFound:
    return NotFound(f"There is no dataset {dataset_id}; GET /datasets lists every dataset.")


def _stood_still() -> StoreError:
    return StoreError(
        "The import paused for so long that another process deleted it; import the file again."
    )
