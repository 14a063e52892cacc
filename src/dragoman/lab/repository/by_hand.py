"""Questions that databases would answer each in their own way, answered row by row.

What a column of the input holds, or whether a pattern matches, is asked of the columnar mirror.
Without one every row is read and looked at here: slower, and with the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dragoman.lab.filters import (
    ANNOTATION,
    INPUT,
    LABEL,
    OUTPUT,
    SCORE,
    Filter,
    passes,
)
from dragoman.lab.model import ExperimentId, JsonValue, ResultRow, RunId
from dragoman.lab.repository.fields import Numbers
from dragoman.lab.repository.ordering import (
    Place,
    Sorting,
    SortKey,
    SortValue,
    check_place,
    keys_of,
)
from dragoman.lab.repository.result_rows import WholeTurn, every_turn, rows_at
from dragoman.store import StoreConnection

Search = Callable[[str, str], bool]
"""Whether a pattern is found in a text."""


def typed(value: JsonValue) -> tuple[float | None, str | None]:
    """A value as a number or as text; what is neither is text as JSON writes it."""
    if value is None:
        return None, None
    if isinstance(value, str):
        return None, value
    if isinstance(value, bool):
        return None, "true" if value else "false"
    if isinstance(value, int | float):
        try:
            return float(value), None
        except OverflowError:
            return None, str(value)
    return None, msgspec.json.encode(value).decode()


def value_of(turn: WholeTurn, field: str) -> tuple[float | None, str | None]:
    """What a turn has in a field, as a number and as text."""
    row = turn.row
    if field.startswith(SCORE):
        cell = row.scores.get(field.removeprefix(SCORE))
        return (None if cell is None else cell.score), None
    if field.startswith(LABEL):
        cell = row.scores.get(field.removeprefix(LABEL))
        return None, (None if cell is None else cell.label)
    if field.startswith(INPUT):
        return typed(row.input.get(field.removeprefix(INPUT)))
    if field.startswith(OUTPUT):
        return typed(row.output.get(field.removeprefix(OUTPUT)))
    if field.startswith(ANNOTATION):
        said = row.annotated.get(field.removeprefix(ANNOTATION))
        return (None, None) if said is None else (said.score, said.text)
    own = getattr(row, field)
    return (None, str(own)) if isinstance(own, str) else (own, None)


def texts_of(turn: WholeTurn) -> list[str]:
    """Every text of the input and the output."""
    values = (*turn.row.input.values(), *turn.row.output.values())
    return [text for text in (typed(value)[1] for value in values) if text is not None]


def turn_passes(turn: WholeTurn, wanted: Filter, search: Search) -> bool:
    """Whether a turn passes a filter."""
    found = passes(wanted, lambda field: value_of(turn, field), lambda: texts_of(turn), search)
    return found is True


def places_of(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    keys: Sequence[SortValue],
    search: Search,
    numbers: Numbers = None,
) -> list[Place]:
    """The places of the rows that pass, in the order of the dataset."""
    return [
        Place(
            turn.key.item_id,
            turn.row.turn,
            tuple(_key(turn, key) for key in keys),
            turn.key.repetition,
        )
        for turns in every_turn(connection, experiment_id, run_id, numbers)
        for turn in turns
        if turn_passes(turn, wanted, search)
    ]


def result_page(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    sorting: Sequence[Sorting],
    after: Place | None,
    most: int,
    search: Search,
    numbers: Numbers = None,
) -> tuple[list[ResultRow], Place | None]:
    """Some rows, and where the next ones begin, if there are more."""
    keys = keys_of(sorting)
    if after is not None:
        check_place(after, keys)
    places = places_of(connection, experiment_id, run_id, wanted, keys, search, numbers)
    for number, key in reversed(list(enumerate(keys))):
        places = _sorted(places, number, key)
    if after is not None:
        places = [place for place in places if _is_behind(place, after, keys)]
    page = places[:most]
    rows = rows_at(connection, experiment_id, page, run_id, numbers)
    return rows, page[-1] if len(places) > most else None


def columns_of(
    connection: StoreConnection, experiment_id: ExperimentId, run_id: RunId | None
) -> dict[str, bool]:
    """The columns of inputs and outputs, each with whether it holds nothing but numbers."""
    numeric: dict[str, bool] = {}
    for turns in every_turn(connection, experiment_id, run_id):
        for turn in turns:
            for prefix, values in ((INPUT, turn.row.input), (OUTPUT, turn.row.output)):
                for name, value in values.items():
                    number, text = typed(value)
                    if number is not None or text is not None:
                        field = prefix + name
                        numeric[field] = numeric.get(field, True) and text is None
    return dict(sorted(numeric.items()))


def _key(turn: WholeTurn, key: SortValue) -> SortKey:
    number, text = value_of(turn, key.field)
    return text if key.is_text else number


def _sorted(places: list[Place], number: int, key: SortValue) -> list[Place]:
    """Sorted by one key, equal ones as they were, and those without a value last."""
    present = [place for place in places if place.keys[number] is not None]
    absent = [place for place in places if place.keys[number] is None]
    # A column holds one type under one key.
    present.sort(key=lambda place: place.keys[number], reverse=key.descending)  # type: ignore[arg-type, return-value]
    return present + absent


def _is_behind(place: Place, other: Place, keys: Sequence[SortValue]) -> bool:
    for key, here, there in zip(keys, place.keys, other.keys, strict=True):
        if here == there:
            continue
        if there is None or here is None:
            return here is None
        return here < there if key.descending else here > there  # type: ignore[operator]
    return _turn(place) > _turn(other)


def _turn(place: Place) -> tuple[str, int, int]:
    return place.item_id, place.repetition, place.turn_no
