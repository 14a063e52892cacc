"""Rows read from a mirror."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dragoman.lab.filters import Filter
from dragoman.lab.mirror.interface import Mirror
from dragoman.lab.mirror.queries import Questions
from dragoman.lab.model import ExperimentId, ResultRow
from dragoman.lab.repository.ordering import Place, Sorting, check_place, keys_of

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


def stream_rows(
    mirror: Mirror, experiment_id: ExperimentId, wanted: Filter
) -> Iterator[list[ResultRow]]:
    """Every row that passes, in the order of the dataset, some at a time."""
    ask = Questions(mirror.dialect, experiment_id, mirror.slots(experiment_id))
    query = ask.select(
        ["row_json"], [ask.condition(wanted)], "ORDER BY item_id, repetition, turn_no"
    )
    for rows in mirror.stream(query):
        yield [_row.decode(row[0]) for row in rows]
