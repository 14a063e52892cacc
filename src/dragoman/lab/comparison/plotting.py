"""Pictures as SVG, drawn here: differences with their intervals, and histograms of scores."""

from __future__ import annotations

from html import escape
from pathlib import Path

import msgspec

from dragoman.lab.comparison.compared import Change, Comparison, Finding
from dragoman.lab.comparison.numbers import signed

_ROW, _TOP, _BOTTOM = 26, 58, 34
_NAMES, _FIGURES, _PLOT = 230, 210, 320
_COLOURS = {
    Finding.BETTER: "#1a7f37",
    Finding.WORSE: "#cf222e",
    Finding.DIFFERENT: "#8250df",
}
_UNCLEAR = "#6e7781"
_STYLE = 'font-family="system-ui, sans-serif" font-size="12"'
_NAME_CHARACTERS = 34


class Plot(msgspec.Struct, frozen=True):
    """A picture; notebooks show it."""

    svg: str

    def save(self, path: Path | str) -> None:
        """Write it to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


def forest_plot(comparison: Comparison) -> Plot:
    """The differences of every run, each on a scale of its own; right of the line is better."""
    lines: list[tuple[str, Change | None, bool | None]] = []
    for run in comparison.others:
        lines.append((run.name, None, None))
        for name, found in run.told_figures().items():
            lines.append((name, found, found.higher_is_better))
            if found.corpus is not None:
                lines.append((f"{name} of the corpus", found.corpus, found.higher_is_better))
    width, height = _NAMES + _PLOT + _FIGURES, _TOP + _ROW * len(lines) + _BOTTOM
    middle = _NAMES + _PLOT / 2
    parts = [
        _text(8, 20, f"Differences from {comparison.baseline.name}", weight="bold", characters=90),
        _text(8, 38, "With 95 % intervals, each row to its own scale"),
        f'<line x1="{middle}" y1="{_TOP - 8}" x2="{middle}" y2="{height - _BOTTOM}" '
        f'stroke="{_UNCLEAR}" stroke-dasharray="3 3"/>',
        _text(_NAMES + 4, height - 12, "worse"),
        _text(_NAMES + _PLOT - 4, height - 12, "better", anchor="end"),
    ]
    for number, (name, change, better) in enumerate(lines):
        at = _TOP + _ROW * number + _ROW / 2
        if change is None:
            parts.append(_text(8, at + 4, name, weight="bold"))
        else:
            parts += _interval(name, change, better, at, middle, width)
    return Plot(_svg(width, height, parts, f"Differences from {comparison.baseline.name}"))


def _interval(
    name: str, change: Change, better: bool | None, at: float, middle: float, width: float
) -> list[str]:
    parts = [_text(20, at + 4, name, characters=_NAME_CHARACTERS)]
    if change.delta is None:
        return [*parts, _text(width - 8, at + 4, "nothing paired", anchor="end")]
    # Mirrored where less is better, so that right means better in every row.
    sign = -1 if better is False else 1
    low, high = change.ci95 or (change.delta, change.delta)
    reach = max(abs(low), abs(high), abs(change.delta)) or 1.0
    scale = (_PLOT / 2 - 12) / reach * sign
    colour = _COLOURS.get(change.finding, _UNCLEAR)
    ends = sorted((middle + low * scale, middle + high * scale))
    told = signed(change.delta)
    if change.ci95 is not None:
        told += f" ({signed(low)} to {signed(high)})"
    return [
        *parts,
        f'<line x1="{ends[0]:.1f}" y1="{at}" x2="{ends[1]:.1f}" y2="{at}" stroke="{colour}" '
        'stroke-width="2"/>',
        f'<circle cx="{middle + change.delta * scale:.1f}" cy="{at}" r="4" fill="{colour}"/>',
        _text(width - 8, at + 4, told, anchor="end"),
    ]


def histograms(title: str, scores: dict[str, list[tuple[float, float, int]]]) -> Plot:
    """How the values of each score are spread: (from, to, how many) for each bar."""
    panel, gap, bars = 240, 20, 110
    width = max(1, len(scores)) * (panel + gap) + gap
    height = _TOP + bars + _BOTTOM
    parts = [_text(gap, 20, title, weight="bold", characters=80)]
    for number, (name, bins) in enumerate(scores.items()):
        left = gap + number * (panel + gap)
        most = max((count for _, _, count in bins), default=0) or 1
        each = panel / max(1, len(bins))
        parts.append(_text(left, _TOP - 4, name))
        for place, (low, high, count) in enumerate(bins):
            tall = bars * count / most
            parts.append(
                f'<rect x="{left + place * each + 1:.1f}" y="{_TOP + 4 + bars - tall:.1f}" '
                f'width="{each - 2:.1f}" height="{tall:.1f}" fill="#0969da">'
                f"<title>{low:.4g} to {high:.4g}: {count}</title></rect>"
            )
        if bins:
            parts.append(_text(left, height - 12, f"{bins[0][0]:.4g}"))
            parts.append(_text(left + panel, height - 12, f"{bins[-1][1]:.4g}", anchor="end"))
        else:
            parts.append(_text(left, _TOP + 40, "no scores"))
    return Plot(_svg(width, height, parts, title))


def _svg(width: float, height: float, parts: list[str], title: str) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<title>{_plain(title)}</title>",
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    weight: str = "normal",
    characters: int = 60,
) -> str:
    shown = text if len(text) <= characters else f"{text[: characters - 1]}…"
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}" {_STYLE} '
        f'fill="#1f2328">{_plain(shown)}</text>'
    )


def _plain(text: str) -> str:
    """Text that is safe in XML: names are the user's own."""
    return escape("".join(one if one.isprintable() else " " for one in text))
