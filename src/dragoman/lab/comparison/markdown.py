"""A comparison as Markdown that fits a pull request."""

from __future__ import annotations

from urllib.parse import quote

from dragoman.lab.comparison.compared import ComparedAnswer, ComparedRow, Comparison
from dragoman.lab.comparison.numbers import figure, signed
from dragoman.lab.comparison.summary_lines import COLUMNS, cells_of, notes_of, title_of

ROWS_SHOWN = 10
_INPUT_CHARACTERS = 300
_TEXT_CHARACTERS = 1_000

_LETTERS = str.maketrans({one: f"\\{one}" for one in "\\`*_{}[]<>()#|~"})


def markdown_of(comparison: Comparison, plot: str | None = None) -> str:
    """The report; `plot` is the file of the picture, relative to the report."""
    names = ", ".join(escaped(run.name) for run in comparison.others)
    lines = [f"# {names} against {escaped(comparison.baseline.name)}", ""]
    if plot is not None:
        lines += [f"![Differences with 95 % intervals]({quote(plot)})", ""]
    for run in comparison.others:
        lines += [f"**{escaped(title_of(comparison, run))}**", ""]
        lines += [_line(COLUMNS), _line(["---", *["---:"] * (len(COLUMNS) - 2), "---"])]
        for name, *cells, finding in cells_of(run):
            marked = f"**{finding}**" if finding in ("better", "worse") else finding
            lines.append(_line([escaped(name), *cells, marked]))
        lines += ["", *(f"- {escaped(note)}" for note in notes_of(comparison, run)), ""]
    lines += _rows(comparison)
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return " ".join(text.split()).translate(_LETTERS)


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _rows(comparison: Comparison) -> list[str]:
    losing = [
        row
        for row in comparison.rows
        if any(one is not None and (one.gain or 0.0) < 0 for one in row.others)
    ][:ROWS_SHOWN]
    if not losing:
        return []
    told = escaped(comparison.sorted_by or "")
    lines = ["<details>", f"<summary>Biggest losses in {told}</summary>", ""]
    for row in losing:
        lines += _row(comparison, row)
    return [*lines, "</details>"]


def _row(comparison: Comparison, row: ComparedRow) -> list[str]:
    name = comparison.sorted_by or ""
    where = f"{row.item_id}" + (f", turn {row.turn}" if row.turn else "")
    said = ", ".join(f"{key}: {value}" for key, value in row.input.items())
    lines = [f"- `{where}` {escaped(said[:_INPUT_CHARACTERS])}"]
    lines.append(f"  - baseline ({_score(row.baseline, name)}): {_plain(row.baseline)}")
    for run, answer in zip(comparison.others, row.others, strict=True):
        if answer is not None:
            gain = "" if answer.gain is None else f", {signed(answer.gain)}"
            told = _diff(answer) if answer.diff else _plain(answer)
            lines.append(f"  - {escaped(run.name)} ({_score(answer, name)}{gain}): {told}")
    return lines


def _score(answer: ComparedAnswer, name: str) -> str:
    found = answer.scores.get(name)
    return figure(getattr(answer, name, None) if found is None else found)


def _plain(answer: ComparedAnswer) -> str:
    if answer.error_code is not None and not answer.output:
        return f"no output ({escaped(answer.error_code)})"
    return escaped(", ".join(str(value) for value in answer.output.values())[:_TEXT_CHARACTERS])


def _diff(answer: ComparedAnswer) -> str:
    marks = {"same": ("", ""), "removed": ("~~", "~~"), "added": ("**", "**")}
    parts: list[str] = []
    length = 0
    for kind, text in answer.diff or ():
        length += len(text)
        if length > _TEXT_CHARACTERS:
            parts.append("…")
            break
        before, after = marks[kind]
        body = text.strip()
        if not body:
            parts.append(" ")
            continue
        # A mark beside a space would not count as one.
        lead = " " if text[:1].isspace() else ""
        tail = " " if text[-1:].isspace() else ""
        parts.append(f"{lead}{before}{escaped(body)}{after}{tail}")
    return "".join(parts)
