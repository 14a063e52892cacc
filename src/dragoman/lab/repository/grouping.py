"""Groups of rows by the values of a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import sqlalchemy as sa

from dragoman.lab.filters import NAMED, OWN_TEXTS, REPETITION, Filter
from dragoman.lab.model import ExperimentId, RunId
from dragoman.lab.repository.by_hand import Search, turn_passes, value_of
from dragoman.lab.repository.fields import Numbers
from dragoman.lab.repository.results import WholeTurn, every_turn
from dragoman.lab.repository.statements import among, as_list
from dragoman.store import Connection

MAX_GROUPS = 50
"""The most frequent values have groups, the others are counted."""

Turns = list[str]
"""Turns as `among_turns` looks for them."""

Only = Callable[[sa.Subquery], sa.ColumnElement[bool]]
"""Which of the shown turns are meant."""


def field_to_group_by(name: str) -> str:
    """The field that a user means: a column of the input, unless the name says otherwise."""
    own = (*OWN_TEXTS, REPETITION)
    return name if name in own or name.startswith(NAMED) else f"input.{name}"


def passing_turns(
    connection: Connection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    search: Search,
    numbers: Numbers = None,
) -> Turns:
    """The turns that pass a filter."""
    return [
        _named(turn)
        for turns in every_turn(connection, experiment_id, run_id, numbers)
        for turn in turns
        if turn_passes(turn, wanted, search)
    ]


def groups_of(
    connection: Connection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    field: str,
    search: Search,
    numbers: Numbers = None,
) -> list[tuple[float | str | None, Turns]]:
    """The turns that pass by their value in a field; the most frequent value first."""
    found: dict[tuple[float | None, str | None], Turns] = defaultdict(list)
    for turns in every_turn(connection, experiment_id, run_id, numbers):
        for turn in turns:
            if turn_passes(turn, wanted, search):
                found[value_of(turn, field)].append(_named(turn))
    groups = sorted(
        found.items(),
        key=lambda group: (
            -len(group[1]),
            *((value is None, value or 0) for value in group[0][:1]),
            *((value is None, value or "") for value in group[0][1:]),
        ),
    )
    return [(number if number is not None else text, turns) for (number, text), turns in groups]


def among_turns(turns: Turns) -> Only:
    """The condition that a shown turn is one of these."""
    listed = as_list(turns)

    def condition(shown: sa.Subquery) -> sa.ColumnElement[bool]:
        numbers = [sa.cast(shown.c[name], sa.String(10)) for name in ("repetition", "turn_no")]
        named = shown.c.item_id + sa.literal("/") + numbers[0] + sa.literal("/") + numbers[1]
        return among(named, "turns", listed)

    return condition


def _named(turn: WholeTurn) -> str:
    return f"{turn.key.item_id}/{turn.key.repetition}/{turn.row.turn}"
