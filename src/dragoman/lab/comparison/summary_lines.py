"""A comparison as a few lines of text, to be read in ten seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.lab.annotations import calibration_told
from dragoman.lab.comparison.compared import (
    Change,
    Compared,
    ComparedRun,
    Comparison,
    Finding,
    LeftOut,
    Missing,
    told_row,
)
from dragoman.lab.comparison.numbers import chance, figure, rounded, signed
from dragoman.lab.states import ENDED

ROWS_SHOWN = 5

COLUMNS = (
    *("", "baseline", "other", "difference", "95 % interval", "p"),
    *("wins/losses/ties", "finding"),
)

_ENDED = frozenset(status.value for status in ENDED)
_REASONS = {
    "target_failed": "failed by the target",
    "unscored": "without a value",
    "infrastructure": "lost to the infrastructure",
    "unfinished": "not finished",
}


def lines_of(comparison: Comparison, rows: int = ROWS_SHOWN) -> list[str]:
    """The figures of each run, what they leave out, and the rows to look at."""
    lines: list[str] = []
    for run in comparison.others:
        lines += [title_of(comparison, run), *aligned([COLUMNS, *cells_of(run)])]
        lines += notes_of(comparison, run)
    worst = [row for row in comparison.rows[:rows] if _loses(row.others)]
    if worst:
        lines.append(f"Biggest losses in {comparison.sorted_by}:")
        lines += [f"  {told_row(row, comparison.sorted_by)}" for row in worst]
    return lines


def title_of(comparison: Comparison, run: ComparedRun) -> str:
    """What is compared with what, and over how many items."""
    paired = max((one.paired for one in run.told_figures().values()), default=0)
    return f"{run.name} against {comparison.baseline.name}: {paired:,} items paired"


def cells_of(run: ComparedRun) -> Iterator[tuple[str, ...]]:
    """The lines of the table, in the order of `COLUMNS`."""
    for name, found in run.told_figures().items():
        yield _cells(name, found)
        if found.corpus is not None:
            yield _cells(f"{name} of the corpus", found.corpus)


def _cells(name: str, change: Change) -> tuple[str, ...]:
    low_high = "none"
    if change.ci95 is not None:
        low_high = f"{signed(change.ci95[0])} to {signed(change.ci95[1])}"
    return (
        name,
        figure(change.baseline),
        figure(change.other),
        signed(change.delta),
        low_high,
        chance(change.p),
        f"{change.wins}/{change.losses}/{change.ties}",
        change.finding.value,
    )


def notes_of(comparison: Comparison, run: ComparedRun) -> list[str]:
    """What the numbers do not say themselves."""
    notes = [
        f"{one.name} is {one.status}: its numbers may change."
        for one in (comparison.baseline, run)
        if one.status not in _ENDED
    ]
    notes += _what_can_be_told(run.scores)
    for reasons, told in _grouped(run.told_figures()).items():
        notes.append(f"Left out of {', '.join(told)}: {reasons}.")
    notes += [f"{name} was not compared: {'; '.join(why)}." for name, why in run.refused.items()]
    notes += [
        f"{name} is given by a judge: {calibration_told(run.calibrations[name])}."
        for name in run.scores
        if name in run.calibrations
    ]
    for names, where in ((run.only_here, run.name), (run.only_in_baseline, "the baseline")):
        if names:
            notes.append(f"Only {where} has {', '.join(names)}.")
    if comparison.questions > 1:
        notes.append(f"p is corrected for {comparison.questions} comparisons made at once (Holm).")
    return notes


def _what_can_be_told(scores: dict[str, Compared]) -> list[str]:
    """What so many items show, in one sentence where it is the same number of items."""
    found: dict[tuple[int, int], list[tuple[str, Compared]]] = {}
    notes: list[str] = []
    for name, score in scores.items():
        if score.detectable and score.finding is not Finding.EQUAL:
            found.setdefault((score.paired, score.units), []).append((name, score))
        elif score.paired < 2:
            notes.append(score.in_words)
    for (paired, units), group in found.items():
        told = [f"{rounded(score.detectable or 0.0)} {name}" for name, score in group]
        listed = " or ".join(filter(None, (", ".join(told[:-1]), told[-1])))
        groups = "" if units == paired else f" in {units:,} groups"
        notes.append(
            f"With {paired:,} items{groups} a difference below {listed} cannot be told from chance."
        )
    return notes


def left_out(found: LeftOut) -> str:
    """How many turns were left out, and why; empty when none was."""
    parts = [
        f"{number:,} {'is' if number == 1 else 'are'} only in {where}"
        for number, where in (
            (found.only_in_baseline, "the baseline"),
            (found.only_in_other, "the other run"),
        )
        if number
    ]
    for missing, where in ((found.baseline, "the baseline"), (found.other, "the other run")):
        parts += [f"{told} in {where}" for told in _told(missing)]
    return ", ".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of text: the first column to the left, the others to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if place in (0, len(widths) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _grouped(figures: dict[str, Compared]) -> dict[str, list[str]]:
    """The figures by what they leave out: most leave out the same."""
    grouped: dict[str, list[str]] = {}
    for name, found in figures.items():
        if told := left_out(found.left_out):
            grouped.setdefault(told, []).append(name)
    return grouped


def _told(missing: Missing) -> list[str]:
    counts = {name: getattr(missing, name) for name in _REASONS}
    return [f"{count:,} {_REASONS[name]}" for name, count in counts.items() if count]


def _loses(others: Sequence[object]) -> bool:
    return any((getattr(one, "gain", None) or 0.0) < 0 for one in others)
