"""A comparison as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dragoman.lab.comparison.compared import ComparedAnswer, Comparison
from dragoman.lab.comparison.numbers import signed
from dragoman.lab.comparison.summary_lines import COLUMNS, cells_of, notes_of, title_of

ROWS_SHOWN = 10
_TEXT_CHARACTERS = 500
_COLOURS = {"better": "#1a7f37", "worse": "#cf222e", "different": "#8250df"}


def html_of(comparison: Comparison) -> str:
    """The figures of each run, and the rows that lost the most."""
    parts: list[str] = []
    for run in comparison.others:
        parts.append(f"<h4>{escape(title_of(comparison, run))}</h4>")
        parts.append(_table(COLUMNS, [_marked(cells) for cells in cells_of(run)]))
        notes = "".join(f"<li>{escape(note)}</li>" for note in notes_of(comparison, run))
        parts.append(f"<ul>{notes}</ul>" if notes else "")
    if comparison.rows:
        parts.append(f"<h4>Biggest losses in {escape(comparison.sorted_by or '')}</h4>")
        columns = ("item", "input", "baseline", *(run.name for run in comparison.others))
        lines = [
            [
                escape(f"{row.item_id}, turn {row.turn}" if row.turn else row.item_id),
                _short(", ".join(f"{name}: {value}" for name, value in row.input.items())),
                _output(row.baseline),
                *("" if one is None else _output(one) for one in row.others),
            ]
            for row in comparison.rows[:ROWS_SHOWN]
        ]
        parts.append(_table(columns, lines))
    return "".join(parts)


def _marked(cells: tuple[str, ...]) -> list[str]:
    *others, finding = (escape(cell) for cell in cells)
    colour = _COLOURS.get(finding)
    return [*others, f'<b style="color:{colour}">{finding}</b>' if colour else finding]


def _table(columns: Sequence[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _short(text: str) -> str:
    return escape(text if len(text) <= _TEXT_CHARACTERS else f"{text[:_TEXT_CHARACTERS]}…")


def _output(answer: ComparedAnswer) -> str:
    gain = "" if answer.gain is None else f"{escape(signed(answer.gain))}: "
    if answer.diff:
        marks = {"same": "{}", "removed": "<del>{}</del>", "added": "<ins>{}</ins>"}
        return gain + "".join(marks[kind].format(escape(text)) for kind, text in answer.diff)
    if answer.error_code is not None and not answer.output:
        return gain + escape(f"no output ({answer.error_code})")
    return gain + _short(", ".join(str(value) for value in answer.output.values()))
