"""A flame graph as SVG: each box is a function, as wide as the time spent in it and below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

from benchmarks.profiling.stages import OTHER, STAGES, stage_of

_WIDTH = 1200
_ROW = 17
_TOP = 30
_LEAST_WIDTH = 0.6
_CHARACTER_WIDTH = 6.6


@dataclass
class _Box:
    """A function, under those that called it."""

    name: str
    samples: int = 0
    inside: dict[str, _Box] = field(default_factory=dict)


def flame_graph(stacks: Iterable[tuple[Sequence[str], int]], title: str) -> str:
    """The picture; boxes of one stage of a job's way share a colour."""
    root = _Box("all")
    for stack, count in stacks:
        root.samples += count
        box = root
        for name in stack:
            box = box.inside.setdefault(name, _Box(name))
            box.samples += count
    boxes: list[str] = []
    depth = _draw(root, 0.0, _WIDTH / max(1, root.samples), 0, root.samples, boxes)
    height = _TOP + (depth + 1) * _ROW + 10
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="11">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
            f'<text x="8" y="19" font-size="14">{escape(title)}</text>',
            *boxes,
            "</svg>\n",
        ]
    )


def _draw(box: _Box, left: float, scale: float, row: int, total: int, boxes: list[str]) -> int:
    width = box.samples * scale
    if width < _LEAST_WIDTH:
        return row
    top = _TOP + row * _ROW
    share = box.samples / max(1, total)
    shown = box.name.removeprefix("dragoman.")
    room = int((width - 4) / _CHARACTER_WIDTH)
    text = shown if len(shown) <= room else shown[-room:] if room > 3 else ""
    boxes.append(
        f"<g><title>{escape(box.name)}: {share:.1%}</title>"
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 1}" '
        f'fill="{_colour(box.name)}"/>'
        f'<text x="{left + 2:.1f}" y="{top + 12}">{escape(text)}</text></g>'
    )
    deepest = row
    for inside in sorted(box.inside.values(), key=lambda one: one.name):
        deepest = max(deepest, _draw(inside, left, scale, row + 1, total, boxes))
        left += inside.samples * scale
    return deepest


def _colour(name: str) -> str:
    stage = stage_of(name)
    if stage == OTHER:
        return f"hsl(0,0%,{78 + crc32(name.encode()) % 12}%)"
    hue = list(STAGES).index(stage) * 360 // len(STAGES)
    return f"hsl({hue},70%,{68 + crc32(name.encode()) % 12}%)"
