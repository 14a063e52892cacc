"""Annotations as users give them: checked, stored, changed, removed, listed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from getpass import getuser
from random import Random

import msgspec

from dragoman.clock import Clock
from dragoman.errors import InvalidMessage, NotFound
from dragoman.ids import TenantId, new_id
from dragoman.lab.annotations.calibration import Calibrator
from dragoman.lab.model import Annotation, Experiment, ItemId, ItemKey
from dragoman.lab.names import check_name
from dragoman.lab.repository import annotating, datasets, experiments
from dragoman.store import Store, StoreConnection

MAX_AT_ONCE = 10_000
MAX_LABEL_CHARACTERS = 200
MAX_CORRECTION_CHARACTERS = 100_000
LARGEST_SCORE = 1e100
"""As of evaluators: sums of squares still fit into every database's numbers."""


class NewAnnotation(msgspec.Struct, frozen=True):
    """An annotation as a user gives it."""

    item_id: str
    """The item as users know it."""
    said: Annotation
    turn: int = 0
    repetition: int = 1


class Put(msgspec.Struct, frozen=True):
    """What became of an annotation."""

    annotation_id: str
    created: bool
    """False when it replaced one of the same person and name on the same output."""


def this_user() -> str:
    """Who annotates, unless another name is given."""
    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return "anyone"


class Annotations:
    """What people say of the rows of a tenant's experiments."""

    def __init__(self, store: Store, clock: Clock, random: Random) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._calibrator = Calibrator(store, clock)

    async def put(
        self, tenant: TenantId, experiment_id: str, given: Sequence[NewAnnotation]
    ) -> list[Put]:
        """Store annotations, all or none of them.

        One of the same person and name on the same output is replaced by the later one.
        """
        if not 1 <= len(given) <= MAX_AT_ONCE:
            raise InvalidMessage(
                f"There are {len(given):,} annotations; give from 1 to {MAX_AT_ONCE:,} at once."
            )
        for number, one in enumerate(given):
            _check(one, f"annotations[{number}]" if len(given) > 1 else "annotation")
        ids = [new_id(self._random, "a") for _ in given]
        at_ms = self._clock.now_ms()

        def put(connection: StoreConnection) -> list[tuple[str, bool]]:
            found = _found(connection, tenant, experiment_id, lock=True)
            rows = _rows(connection, found, given, ids)
            return annotating.put(connection, tenant, found.experiment_id, rows, at_ms)

        kept = await self._store.write(put)
        await self._calibrator.calibrate(tenant, experiment_id)
        return [Put(annotation_id, created) for annotation_id, created in kept]

    async def remove(self, tenant: TenantId, experiment_id: str, annotation_id: str) -> None:
        """Remove an annotation."""

        def remove(connection: StoreConnection) -> None:
            found = _found(connection, tenant, experiment_id)
            if not annotating.remove(connection, found.experiment_id, annotation_id):
                raise NotFound(
                    f"Experiment {experiment_id} has no annotation {annotation_id!r}; GET "
                    "/experiments/{id}/annotations lists them."
                )

        await self._store.write(remove)
        await self._calibrator.calibrate(tenant, experiment_id)

    async def every(
        self,
        tenant: TenantId,
        experiment_id: str,
        *,
        after: tuple[int, str] | None = None,
        most: int = 100,
    ) -> list[annotating.StoredAnnotation]:
        """Annotations in the order in which they were given, those after `after`."""

        def read(connection: StoreConnection) -> list[annotating.StoredAnnotation]:
            found = _found(connection, tenant, experiment_id)
            return annotating.every(connection, found.experiment_id, after=after, most=most)

        return await self._store.read(read)

    async def names(self, tenant: TenantId, experiment_id: str) -> list[str]:
        """The names under which people judged rows."""

        def read(connection: StoreConnection) -> list[str]:
            found = _found(connection, tenant, experiment_id)
            return annotating.names_of(connection, found.experiment_id)

        return await self._store.read(read)


def _found(
    connection: StoreConnection, tenant: TenantId, experiment_id: str, *, lock: bool = False
) -> Experiment:
    # Locked where rows are added: an experiment that is being deleted gets none.
    found = experiments.find_experiment(connection, experiment_id, tenant=tenant, lock=lock)
    if found is None:
        raise NotFound(
            f"No experiment has the id {experiment_id!r}; `dragoman experiment list` shows them."
        )
    return found


def _rows(
    connection: StoreConnection,
    experiment: Experiment,
    given: Sequence[NewAnnotation],
    ids: Sequence[str],
) -> list[annotating.NewRow]:
    """The annotations with the outputs that they are about; a row that is not there is refused."""
    version_id = experiment.spec.dataset_version_id
    names = list(dict.fromkeys(one.item_id for one in given))
    items = {} if version_id is None else datasets.known_items(connection, version_id, names)
    # An item that was invoked is in no version, and goes by its own id.
    items = {name: items.get(name, ItemId(name)) for name in names}
    keys = {ItemKey(items[one.item_id], one.repetition - 1) for one in given}
    turns = annotating.turns_of_items(connection, experiment.experiment_id, keys)
    rows = []
    for one, annotation_id in zip(given, ids, strict=True):
        item_id = items[one.item_id]
        place = (item_id, one.repetition - 1, one.turn)
        if place not in turns:
            what = f"repetition {one.repetition}, turn {one.turn} of the item {one.item_id[:80]!r}"
            raise NotFound(
                f"Experiment {experiment.experiment_id} has no row for {what}; POST "
                "/experiments/{id}/results shows its rows."
            )
        key = ItemKey(item_id, one.repetition - 1)
        rows.append(annotating.NewRow(annotation_id, key, one.turn, turns[place], one.said))
    return rows


def _check(given: NewAnnotation, where: str) -> None:
    said = given.said
    check_name(said.name, "an annotation")
    check_name(said.annotator, "an annotator")
    if said.score is None and said.label is None and said.correction is None:
        raise _refused(where, "it has neither a score nor a label nor a correction")
    if said.score is not None and not (
        math.isfinite(said.score) and abs(said.score) <= LARGEST_SCORE
    ):
        raise _refused(f"{where}.score", f"it must be a number up to {LARGEST_SCORE:g}")
    if said.label is not None:
        _check_text(said.label, MAX_LABEL_CHARACTERS, f"{where}.label")
    if said.correction is not None:
        _check_text(said.correction, MAX_CORRECTION_CHARACTERS, f"{where}.correction")
    if not 1 <= given.repetition <= 2**31 - 1 or not 0 <= given.turn <= 2**31 - 1:
        raise _refused(where, "turns count from 0 and repetitions from 1")


def _check_text(text: str, most: int, where: str) -> None:
    if not text.strip():
        raise _refused(where, "it is empty; leave it out")
    if len(text) > most:
        raise _refused(where, f"it has {len(text):,} characters; at most {most:,} are allowed")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise _refused(where, "it holds a NUL character or half of a surrogate pair")


def _refused(where: str, why: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {why}.", details={"field": where})
