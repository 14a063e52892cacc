"""The report as one HTML page: tables and plots, with nothing to be fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from dragoman.simulation.figures import UNITS, FigureEstimate, RunFigures, WorkFigures
from dragoman.simulation.report import ScenarioComparison, SimulationReport

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 200, 52, 26
_MOST_POINTS = 720
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2")
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.first { border-left: 4px solid #d97706; background: var(--soft); padding: .6rem 1rem; }
.broken { border-left: 4px solid #dc2626; background: var(--soft); padding: .6rem 1rem; }
svg { max-width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; }
.note { opacity: .75; }
"""


def report_page(report: SimulationReport) -> str:
    """The page of one scenario."""
    first = report.runs[0]
    parts = [
        f"<h1>{escape(report.scenario)}</h1>",
        _intro(report),
        f'<p class="first"><b>First bottleneck.</b> {escape(report.bottleneck)}</p>',
        *_violations(report.runs),
        "<h2>In short</h2>",
        _metrics(report.metrics, len(report.runs)),
        "<h2>Slots busy</h2>",
        _plot(
            {group.name: [100 * share for share in group.minutes] for group in first.groups},
            unit="%",
            top=100.0,
        ),
        "<h2>Not served, by minute</h2>",
        _plot({"not served": [float(count) for count in first.refused_by_minute]}, unit=""),
        "<h2>By pair</h2>",
        _rows(
            (f"{pair.pair} ({pair.traffic})", pair.whole)
            for run in report.runs[:1]
            for pair in run.pairs
        ),
        "<h2>By hour</h2>",
        _rows(first.hours.items()),
        *_by_pair_and_hour(first),
        "<h2>By group of nodes</h2>",
        _groups(first),
        *_faults(first),
    ]
    return _page(f"Simulation of {report.scenario}", parts)


def comparison_page(comparison: ScenarioComparison) -> str:
    """The page of two scenarios side by side."""
    a, b = comparison.a, comparison.b
    rows = [
        (
            f"{difference.metric} {difference.unit}".strip(),
            _shown(difference.a),
            _shown(difference.b),
            _shown(difference.change, sign=True),
            "yes" if difference.is_clear else "no",
        )
        for difference in comparison.differences
    ]
    busy = {
        f"{report.scenario}: {group.name}": [100 * share for share in group.minutes]
        for report in (a, b)
        for group in report.runs[0].groups
    }
    parts = [
        f"<h1>{escape(a.scenario)} and {escape(b.scenario)}</h1>",
        f'<p class="note">{len(a.seeds)} run(s) each, with the same seeds; intervals of 95 %.</p>',
        _table(("figure", a.scenario, b.scenario, "change", "clear"), rows),
        "<h2>Slots busy</h2>",
        _plot(busy, unit="%", top=100.0),
    ]
    for report in (a, b):
        parts.append(f"<h2>First bottleneck: {escape(report.scenario)}</h2>")
        parts.append(f'<p class="first">{escape(report.bottleneck)}</p>')
        parts += _violations(report.runs)
    return _page(f"{a.scenario} and {b.scenario}", parts)


def shown_estimate(value: FigureEstimate, *, sign: bool = False) -> str:
    """A mean, and how far its interval reaches; nothing more when one run tells nothing of it."""
    return _shown(value, sign=sign)


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _intro(report: SimulationReport) -> str:
    seeds = ", ".join(map(str, report.seeds[:10])) + (", ..." if len(report.seeds) > 10 else "")
    return (
        f'<p class="note">{report.duration_seconds:g} s of life, {report.nodes} nodes with'
        f" {report.slots} slots, {report.instances} instance(s); {len(report.runs)} run(s), seeds"
        f" {seeds}. Plots and the tables below show the run with seed {report.seeds[0]}.</p>"
    )


def _violations(runs: Sequence[RunFigures]) -> list[str]:
    found = [f"seed {run.seed}, {broken}" for run in runs for broken in run.violations]
    if not found:
        return []
    items = "".join(f"<li>{escape(one)}</li>" for one in found[:20])
    return [f'<div class="broken"><b>Broken promises.</b><ul>{items}</ul></div>']


def _metrics(metrics: Mapping[str, FigureEstimate], runs: int) -> str:
    table = _table(
        ("figure", "mean"),
        [(f"{name} {UNITS[name]}".strip(), _shown(value)) for name, value in metrics.items()],
    )
    note = "intervals of 95 % over seeds" if runs > 1 else "one run: play more for intervals"
    return f'{table}<p class="note">{note}</p>'


def _rows(rows: Iterable[tuple[str, WorkFigures]]) -> str:
    header = (
        "", "asked", "served", "not served", "why", "wait p50", "p95", "p99", "total p50", "p95",
        "p99 ms",
    )  # fmt: skip
    return _table(header, [(name, *row_cells(row)) for name, row in rows])


def row_cells(row: WorkFigures) -> tuple[str, ...]:
    """The cells of a row: counts, reasons, and percentiles of waiting and of the whole."""
    return (
        str(row.asked),
        str(row.served),
        f"{100 * row.refused_share:.2f} %",
        ", ".join(f"{count} {reason}" for reason, count in row.reasons.items()) or "-",
        *(f"{value:.0f}" for value in (row.wait_ms.p50, row.wait_ms.p95, row.wait_ms.p99)),
        *(f"{value:.0f}" for value in (row.total_ms.p50, row.total_ms.p95, row.total_ms.p99)),
    )


def _by_pair_and_hour(run: RunFigures) -> list[str]:
    if len(run.pairs) < 2 or len(run.hours) < 2:
        return []
    rows = [
        (f"{pair.pair} ({pair.traffic}) {hour}", row)
        for pair in run.pairs
        for hour, row in pair.hours.items()
    ]
    return ["<h2>By pair and hour</h2>", _rows(rows)]


def _groups(run: RunFigures) -> str:
    return _table(
        ("group", "nodes", "slots", "busy", "most busy"),
        [
            (group.name, str(group.nodes), str(group.slots), f"{100 * group.busy_share:.1f} %",
             str(group.most_busy))
            for group in run.groups
        ],
    )  # fmt: skip


def _faults(run: RunFigures) -> list[str]:
    if not run.faults:
        return []
    items = "".join(f"<li>{escape(fault)}</li>" for fault in run.faults[:200])
    return ["<h2>What went wrong</h2>", f"<ul>{items}</ul>"]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: FigureEstimate, *, sign: bool = False) -> str:
    half = (value.high - value.low) / 2
    if not half and value.mean == round(value.mean):
        return f"{value.mean:+.0f}" if sign and value.mean else f"{value.mean:.0f}"
    digits = 0 if abs(value.mean) >= 100 or half >= 10 else 1 if abs(value.mean) >= 10 else 3
    mean = f"{value.mean:+.{digits}f}" if sign else f"{value.mean:.{digits}f}"
    return mean if half == 0 else f"{mean} ± {half:.{digits}f}"


# --- plots -------------------------------------------------------------------------------------


def _plot(lines: Mapping[str, Sequence[float]], *, unit: str, top: float | None = None) -> str:
    """Lines over the minutes of the run."""
    drawn = {name: _thinned(values) for name, values in lines.items() if values}
    if not drawn:
        return '<p class="note">nothing to show</p>'
    minutes = max(len(values) for values in lines.values())
    highest = top or max(max(values) for values in drawn.values()) or 1.0
    plot_width = _WIDTH - _LEFT
    parts = [_axes(minutes, highest, unit)]
    for number, (_, values) in enumerate(drawn.items()):
        step = plot_width / max(1, len(values) - 1)
        points = " ".join(
            f"{_LEFT + i * step:.1f},{_y(value / highest):.1f}" for i, value in enumerate(values)
        )
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'
        )
    legend = " ".join(
        f'<span style="color:{_COLOURS[number % len(_COLOURS)]}">&#9632;</span> {escape(name)}'
        for number, name in enumerate(drawn)
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'
        f'<p class="note">{legend}</p>'
    )


def _axes(minutes: int, highest: float, unit: str) -> str:
    parts = []
    for part in (0.0, 0.5, 1.0):
        y, label = _y(part), f"{part * highest:.3g}{unit}"
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LEFT + part * (_WIDTH - _LEFT)
        label = f"{part * minutes:.3g} min"
        anchor = "start" if part == 0 else "end" if part == 1 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{label}</text>')
    return "".join(parts)


def _y(part: float) -> float:
    """How far down a value lies that is so much of the highest."""
    plot_height = _HEIGHT - _BOTTOM
    return plot_height - min(part, 1.0) * (plot_height - 8)


def _thinned(values: Sequence[float]) -> list[float]:
    """At most so many points, each the highest of those it stands for: a peak is never lost."""
    if len(values) <= _MOST_POINTS:
        return list(values)
    step = len(values) / _MOST_POINTS
    return [
        max(values[int(i * step) : max(int((i + 1) * step), int(i * step) + 1)])
        for i in range(_MOST_POINTS)
    ]
