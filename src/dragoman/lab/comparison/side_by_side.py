"""Rows side by side: which come first, and what each run said."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.lab.comparison.compared import ComparedAnswer, ComparedRow, Comparison
from dragoman.lab.comparison.diffs import Differ, Piece
from dragoman.lab.comparison.run_reader import Seen, Unit
from dragoman.lab.repository import pairing
from dragoman.store import StoreConnection

Spoken = dict[tuple[str, int], pairing.TurnTexts]
"""Inputs and outputs of one run, by the item's row and the turn."""


def worst_first(
    seen: Sequence[Seen], found: Comparison, skip: int, most: int
) -> tuple[list[Unit], bool]:
    """The turns of a page, the biggest loss first, and whether there are more."""
    baseline, *others = seen
    name, lower = found.sorted_by or "", _lower_is_better(found)
    placed = []
    for unit in baseline.item_ids if most else ():
        if any(unit in other.item_ids for other in others):
            known = [gain for gain in _gains(seen, name, lower, unit) if gain is not None]
            placed.append((not known, min(known, default=0.0), unit))
    placed.sort()
    page = [unit for _, _, unit in placed[skip : skip + most]]
    return page, skip + len(page) < len(placed)


def said_of(
    connection: StoreConnection, seen: Sequence[Seen], units: Sequence[Unit]
) -> list[Spoken]:
    """What went in and came out at these turns, in each run."""
    return [
        pairing.said_in(
            connection,
            one.contestant.experiment.experiment_id,
            one.contestant.run_id,
            sorted({one.item_ids[unit] for unit in units if unit in one.item_ids}),
        )
        for one in seen
    ]


def rows_of(
    seen: Sequence[Seen], said: Sequence[Spoken], found: Comparison, units: Sequence[Unit]
) -> tuple[ComparedRow, ...]:
    """These turns in every run, side by side."""
    differ = Differ()
    name, lower = found.sorted_by or "", _lower_is_better(found)
    rows = []
    for unit in units:
        texts = [
            of_run.get((one.item_ids[unit], unit[1])) if unit in one.item_ids else None
            for one, of_run in zip(seen, said, strict=True)
        ]
        first = texts[0]
        gains = _gains(seen, name, lower, unit)
        rows.append(
            ComparedRow(
                item_id=unit[0],
                turn=unit[1],
                input={} if first is None else first.input,
                baseline=_answer(seen[0], unit, first),
                others=tuple(
                    None
                    if unit not in one.item_ids
                    else _answer(one, unit, text, gain, _diff(differ, first, text))
                    for one, text, gain in zip(seen[1:], texts[1:], gains, strict=True)
                ),
            )
        )
    return tuple(rows)


def _gains(
    seen: Sequence[Seen], name: str, lower_is_better: Sequence[bool | None], unit: Unit
) -> list[float | None]:
    """By how much a turn of each other run is better than the baseline's."""
    baseline, *others = seen
    before = _value(baseline, name, unit)
    gains: list[float | None] = []
    for other, lower in zip(others, lower_is_better, strict=True):
        after = _value(other, name, unit)
        if lower is None or before is None or after is None:
            gains.append(None)
        else:
            gains.append(before - after if lower else after - before)
    return gains


def _lower_is_better(found: Comparison) -> list[bool | None]:
    """Of what rows are sorted by, in each run; None where it was not compared."""
    compared = [run.figures().get(found.sorted_by or "") for run in found.others]
    return [None if one is None else one.higher_is_better is False for one in compared]


def _value(seen: Seen, name: str, unit: Unit) -> float | None:
    series = seen.scores.get(name) or seen.measures.get(name)
    return None if series is None else series.value(unit)


def _answer(
    seen: Seen,
    unit: Unit,
    said: pairing.TurnTexts | None,
    gain: float | None = None,
    diff: tuple[Piece, ...] | None = None,
) -> ComparedAnswer:
    return ComparedAnswer(
        output={} if said is None else said.output,
        scores={name: series.value(unit) for name, series in seen.scores.items()},
        latency_ms=seen.measures["latency_ms"].value(unit),
        tokens=seen.measures["tokens"].value(unit),
        cost=seen.measures["cost"].value(unit),
        error_code=seen.errors.get(unit),
        gain=gain,
        diff=diff,
    )


def _diff(
    differ: Differ, before: pairing.TurnTexts | None, after: pairing.TurnTexts | None
) -> tuple[Piece, ...] | None:
    one, other = _text(before), _text(after)
    return None if one is None or other is None else differ.diff(one, other)


def _text(said: pairing.TurnTexts | None) -> str | None:
    """The main output, if it is a text."""
    main = None if said is None or said.main is None else said.output.get(said.main)
    return main if isinstance(main, str) else None
