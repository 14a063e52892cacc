"""Which rows a page has, and which columns an experiment, as a mirror knows them.

The rows themselves are the database's: those of a page lie far apart, and a columnar database reads
thousands of others to find one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.lab.filters import INPUT, OUTPUT, Filter
from dragoman.lab.mirror.interface import Mirror
from dragoman.lab.mirror.queries import Mirrored, Questions
from dragoman.lab.model import ExperimentId
from dragoman.lab.repository import Place, Sorting, SortValue, check_place, keys_of


def result_places(
    mirror: Mirror,
    asked: Mirrored,
    wanted: Filter,
    sorting: Sequence[Sorting],
    after: Place | None,
    most: int,
) -> Places:
    """Which rows a page has, in order, and where the next ones begin, if there are more."""
    keys = _keys(sorting, after)
    ask = Questions(mirror.dialect, asked, mirror.slots(asked.experiment_id))
    rows = mirror.ask(ask.page(wanted, keys, after, most + 1))
    places = [_place(row, len(keys)) for row in rows]
    return Places(places[:most], places[most - 1] if len(places) > most else None)


def count_rows(mirror: Mirror, asked: Mirrored, wanted: Filter) -> int:
    """How many rows pass."""
    ask = Questions(mirror.dialect, asked, mirror.slots(asked.experiment_id))
    [(count,)] = mirror.ask(ask.select(["count(*)"], [ask.condition(wanted)]))
    return int(count)


class Places(msgspec.Struct, frozen=True):
    """The rows of a page, and the last of them if there are more."""

    places: list[Place]
    after: Place | None


def _keys(sorting: Sequence[Sorting], after: Place | None) -> list[SortValue]:
    keys = keys_of(sorting)
    if after is not None:
        check_place(after, keys)
    return keys


def _place(row: tuple[Any, ...], keys: int) -> Place:
    item_id, repetition, turn_no, *reached = row
    return Place(item_id, turn_no, tuple(reached[:keys]), repetition)


def columns_of(mirror: Mirror, experiment_id: ExperimentId) -> dict[str, bool]:
    """The columns of inputs and outputs, each with whether it holds nothing but numbers."""
    known = mirror.slots(experiment_id).known
    fields = {field for field, _ in known if field.startswith((INPUT, OUTPUT))}
    return {field: (field, True) not in known for field in sorted(fields)}
