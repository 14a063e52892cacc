"""Rows read from a mirror."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.lab.filters import INPUT, OUTPUT, Filter
from dragoman.lab.mirror.interface import Mirror
from dragoman.lab.mirror.queries import Questions
from dragoman.lab.model import ExperimentId, ResultRow
from dragoman.lab.repository import Place, Sorting, check_place, keys_of

_row = msgspec.json.Decoder(ResultRow)


def result_page(
    mirror: Mirror,
    experiment_id: ExperimentId,
    wanted: Filter,
    sorting: Sequence[Sorting],
    after: Place | None,
    most: int,
) -> tuple[list[ResultRow], Place | None]:
    """Some rows, and where the next ones begin, if there are more."""
    keys = keys_of(sorting)
    if after is not None:
        check_place(after, keys)
    ask = Questions(mirror.dialect, experiment_id, mirror.slots(experiment_id))
    rows = mirror.ask(ask.page(wanted, keys, after, most + 1))
    shown = [_row.decode(row[3]) for row in rows[:most]]
    if len(rows) <= most:
        return shown, None
    item_id, repetition, turn_no, _, *reached = rows[most - 1]
    return shown, Place(item_id, turn_no, tuple(reached), repetition)


def columns_of(mirror: Mirror, experiment_id: ExperimentId) -> dict[str, bool]:
    """The columns of inputs and outputs, each with whether it holds nothing but numbers."""
    known = mirror.slots(experiment_id).known
    fields = {field for field, _ in known if field.startswith((INPUT, OUTPUT))}
    return {field: (field, True) not in known for field in sorted(fields)}
