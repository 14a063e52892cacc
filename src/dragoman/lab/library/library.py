"""The tenants' datasets: every version is what one file held, and never changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import BinaryIO

from sqlalchemy.exc import IntegrityError

from dragoman.clock import Clock
from dragoman.errors import NameTaken, NotFound, StoreError
from dragoman.ids import TenantId, new_id
from dragoman.lab.datasets import DatasetReader, Format, RowSchema, Turns
from dragoman.lab.model import (
    Dataset,
    DatasetId,
    DatasetVersion,
    Item,
    JsonValue,
    VersionId,
    item_id,
    new_item_batch,
)
from dragoman.lab.names import check_name
from dragoman.lab.repository import datasets
from dragoman.settings import LabSettings
from dragoman.store import Connection, Store, Work

_DISCARDED_AT_ONCE = 10_000

Schema = Mapping[str, JsonValue]


class Library:
    """Brings files in, and finds what was brought in."""

    def __init__(self, store: Store, settings: LabSettings, clock: Clock, random: Random) -> None:
        self._store = store
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
    ) -> DatasetVersion:
        """Make a dataset of a file; its first version."""
        checked = name.strip()
        check_name(checked, "a dataset")
        await self._refuse_taken(tenant, checked)
        dataset_id = DatasetId(new_id(self._random, "d"))

        def number_it(connection: Connection) -> int:
            made_at_ms = self._clock.now_ms()
            datasets.insert_dataset(connection, tenant, dataset_id, checked, made_at_ms)
            return 1

        try:
            return await self._bring_in(tenant, dataset_id, file, file_format, schema, number_it)
        except IntegrityError:
            raise _taken(checked) from None

    async def add_version(
        self,
        tenant: TenantId,
        dataset_id: str,
        file: BinaryIO,
        file_format: Format,
        schema: Schema | None = None,
    ) -> DatasetVersion:
        """Make the next version of a dataset."""
        found = await self.find(tenant, dataset_id)

        def number_it(connection: Connection) -> int:
            return datasets.next_version(connection, found.dataset_id)

        return await self._bring_in(tenant, found.dataset_id, file, file_format, schema, number_it)

    async def find(self, tenant: TenantId, dataset_id: str) -> Dataset:
        """A dataset by its id."""
        found = await self._store.read(
            lambda c: datasets.find_dataset(c, tenant, dataset_id=dataset_id)
        )
        if found is None:
            raise NotFound(
                f"There is no dataset {dataset_id}; GET /datasets lists those there are."
            )
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
        """Items of a version in order, from the one after `after`."""
        return await self._store.read(
            lambda c: datasets.items_of(c, version_id, after=after, most=most)
        )

    async def _refuse_taken(self, tenant: TenantId, name: str) -> None:
        if await self.find_named(tenant, name) is not None:
            raise _taken(name)

    async def _bring_in(
        self,
        tenant: TenantId,
        dataset_id: DatasetId,
        file: BinaryIO,
        file_format: Format,
        schema: Schema | None,
        number_it: Callable[[Connection], int],
    ) -> DatasetVersion:
        """Store the items where nobody sees them, and last the version that shows them all."""
        row_schema = None if schema is None else RowSchema(schema)
        reader = DatasetReader(file, file_format, schema=row_schema, max_items=self._max_items)
        version_id = VersionId(new_id(self._random, "v"))
        try:
            max_turns = await self._store_items(tenant, version_id, reader)
        except BaseException:
            # Shielded, because it may be the caller's leaving that brought us here.
            await asyncio.shield(self._discard(tenant, version_id))
            raise

        def show(connection: Connection) -> DatasetVersion:
            version = DatasetVersion(
                version_id=version_id,
                dataset_id=dataset_id,
                version=number_it(connection),
                schema=reader.schema(),
                items=reader.items,
                max_turns=max_turns,
                created_at_ms=self._clock.now_ms(),
            )
            datasets.insert_version(connection, tenant, version)
            return version

        try:
            return await self._store.write(show)
        except Exception:
            # Not when the caller left: this write goes on by itself, and needs its items.
            await self._discard(tenant, version_id)
            raise

    async def _store_items(
        self, tenant: TenantId, version_id: VersionId, reader: DatasetReader
    ) -> int:
        batches = iter(reader)
        batch_name = new_item_batch(self._random)
        position = max_turns = 0
        while (some := await asyncio.to_thread(_next, batches)) is not None:
            items = [
                Item(item_id(batch_name, position + number), turns)
                for number, turns in enumerate(some)
            ]
            position += len(items)
            max_turns = max(max_turns, *(len(turns) for turns in some))
            await self._store.write(_storing(tenant, version_id, items))
        return max_turns

    async def _discard(self, tenant: TenantId, version_id: VersionId) -> None:
        """Remove the items of a version that did not come to be.

        What cannot be removed is never seen: only the version would show it.
        """

        def some(connection: Connection) -> int:
            if datasets.find_version(connection, tenant, version_id) is not None:
                return 0
            return datasets.discard_items(connection, version_id, _DISCARDED_AT_ONCE)

        with suppress(StoreError):
            while await self._store.write(some):
                pass


def _storing(tenant: TenantId, version_id: VersionId, items: Sequence[Item]) -> Work[None]:
    return lambda connection: datasets.insert_items(connection, tenant, version_id, items)


def _next(batches: Iterator[list[Turns]]) -> list[Turns] | None:
    return next(batches, None)


def _taken(name: str) -> NameTaken:
    return NameTaken(
        f"There is a dataset {name!r} already; take another name, or add a version to that one."
    )
