"""``dragoman experiment annotate``: what a person says of one row, or a file of it of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.cli.lab.client import LabClient
from dragoman.cli.showing import say
from dragoman.errors import DatasetInvalid, NotFound, SettingsError
from dragoman.lab.annotations import MAX_AT_ONCE
from dragoman.lab.datasets import DatasetReader, RowSchema, format_of

_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_WHOLE: dict[str, Any] = {"type": ["integer", "null"]}
COLUMNS: Mapping[str, dict[str, Any]] = {
    "item_id": {"type": "string"},
    "name": _TEXT,
    "score": {"type": ["number", "null"]},
    "label": _TEXT,
    "correction": _TEXT,
    "annotator": _TEXT,
    "turn": _WHOLE,
    "repetition": _WHOLE,
}
"""What a file of annotations may have."""

_SCHEMA = RowSchema(
    {
        "type": "object",
        "properties": dict(COLUMNS),
        "required": ["item_id"],
        "additionalProperties": False,
    }
)


async def annotate_row(lab: LabClient, experiment_id: str, said: Mapping[str, Any]) -> None:
    """Store what a person says of one row, and tell whether it is new."""
    put = await lab.annotate(experiment_id, [said])
    told = "annotated" if put[0].created else "changed"
    say(f"{told}: {put[0].annotation_id}")


async def annotate_from(
    lab: LabClient, experiment_id: str, path: Path, defaults: Mapping[str, Any]
) -> None:
    """Store the annotations of a file, all of which are read before the first is sent."""
    given = list(_read(path, defaults))
    if not given:
        raise SettingsError(f"{path} has no annotations.")
    created = 0
    for begin in range(0, len(given), MAX_AT_ONCE):
        put = await lab.annotate(experiment_id, given[begin : begin + MAX_AT_ONCE])
        created += sum(one.created for one in put)
    say(f"{created:,} annotated, {len(given) - created:,} changed.")


async def remove_annotation(lab: LabClient, experiment_id: str, said: Mapping[str, Any]) -> None:
    """Remove what a person said of a row under a name."""
    named = ("item_id", "turn", "repetition", "name", "annotator")
    found = 0
    async for one in lab.annotations(experiment_id):
        if all(getattr(one, name) == said[name] for name in named):
            await lab.remove_annotation(experiment_id, one.annotation_id)
            found += 1
    if not found:
        raise NotFound(
            f"{said['annotator']!r} said nothing under {said['name']!r} of that row; `dragoman "
            "experiment annotations` lists what people said."
        )
    say("removed")


def _read(path: Path, defaults: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            for batch in DatasetReader(file, format_of(path.name), schema=_SCHEMA):
                for (row,) in batch:
                    told = {name: value for name, value in row.items() if value not in (None, "")}
                    yield {**defaults, **told}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from None
    except DatasetInvalid as error:
        message = error.message.removeprefix("Nothing was imported. ")
        raise SettingsError(f"{path}: {message}") from None
