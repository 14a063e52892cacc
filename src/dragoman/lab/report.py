"""A short report on an experiment: what it took, and what went wrong."""

from __future__ import annotations

from dragoman.lab.failures import shortened
from dragoman.lab.model import Stats
from dragoman.lab.people_report import people_lines
from dragoman.lab.results import Aggregate, Aggregates, Repeated

MOST_CAUSES = 3
SAMPLE_CHARACTERS = 200

_MINUTE_SECONDS = 60
_HOUR_SECONDS = 3600


def lines_of(reached: Aggregates, stats: Stats, duration_seconds: float | None) -> list[str]:
    """What repetitions and people tell, what it took, and why items failed."""
    return [
        *_repeated(reached),
        *people_lines(reached),
        *_taken(reached, stats, duration_seconds),
        *_failed(reached),
    ]


def interval_of(score: Aggregate) -> str:
    """The 95 % interval of a mean; empty where it is not known."""
    return _bounds(score.ci95)


def corpus_of(score: Aggregate) -> str:
    """The score of all texts together with its 95 % interval; empty where there is none."""
    if not isinstance(score.corpus, float):
        return ""
    bounds = _bounds(score.corpus_ci95)
    return f"{score.corpus:.4g} ({bounds})" if bounds else f"{score.corpus:.4g}"


def _bounds(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.4g} to {bounds[1]:.4g}"


def shown_duration(seconds: float) -> str:
    """A length of time as people read it."""
    if seconds < _MINUTE_SECONDS:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, _MINUTE_SECONDS)
    if whole < _HOUR_SECONDS:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def _repeated(reached: Aggregates) -> list[str]:
    lines = []
    for name, score in reached.scores.items():
        told = score.repetitions
        if not isinstance(told, Repeated):
            continue
        figures = [
            f"variance within items {_figure(told.within)}, between items {_figure(told.between)}"
        ]
        if told.pass_at_k:
            k = max(told.pass_at_k)
            figures += [f"pass@{k} {told.pass_at_k[k]:.4g}", f"pass^{k} {told.pass_hat_k[k]:.4g}"]
        lines.append(f"{name} in {told.count} repetitions: {', '.join(figures)}")
    return lines


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _taken(reached: Aggregates, stats: Stats, duration_seconds: float | None) -> list[str]:
    lines: list[str] = []
    if duration_seconds is not None:
        lines.append(f"duration: {shown_duration(duration_seconds)}")
    if reached.latency_ms.count:
        lines.append(f"latency: {_latency(reached.latency_ms)}")
    used = []
    if stats.tokens:
        used.append(f"tokens: {stats.tokens:,}")
    if stats.cost:
        used.append(f"cost: {stats.cost:,.6g}")
    return [*lines, *used]


def _latency(latency: Aggregate) -> str:
    named = (("mean", latency.mean), ("p50", latency.p50), ("p95", latency.p95))
    return ", ".join(f"{name} {value:,.4g} ms" for name, value in named if value is not None)


def _failed(reached: Aggregates) -> list[str]:
    failures = reached.failures
    if not failures.items:
        return []
    items = "1 item has" if failures.items == 1 else f"{failures.items:,} items have"
    lines = [f"without a score: {items} none or not all ({failures.share:.1%}), because of"]
    for cause in failures.causes[:MOST_CAUSES]:
        sample = " ".join((cause.sample or "").split())
        said = f', such as "{shortened(sample, SAMPLE_CHARACTERS)}"' if sample else ""
        lines.append(f"  {cause.code} ({cause.count:,}){said}")
    hidden = len(failures.causes) - MOST_CAUSES
    if hidden > 0:
        lines.append(f"  and {hidden} more")
    return lines
