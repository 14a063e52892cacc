"""A first experiment file, written from what a dataset holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from dragoman.errors import SettingsError
from dragoman.lab.datasets import DatasetReader, format_of
from dragoman.lab.evaluators import EVALUATORS
from dragoman.lab.model import JsonValue
from dragoman.lab.samples import samples_folder
from dragoman.lab.targets import TARGETS

SAMPLE = "en-es.jsonl"
ROWS_LOOKED_AT = 200

_TABLES = (".jsonl", ".ndjson", ".csv", ".parquet")
_SOUND = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".webm")
_REFERENCES = ("reference", "expected", "ideal", "gold", "answer", "label", "translation", "target")
_OUTPUTS = ("output", "prediction", "hypothesis", "response", "said", "generated", "completion")
_INPUTS = ("source", "input", "question", "prompt", "query", "text", "sentence")
_GROUPS = ("domain", "document", "speaker", "language", "category")


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the user asks for, and what runs already."""

    out: Path
    dataset: Path | None
    target: str | None
    server_url: str | None


@dataclass(slots=True)
class Begun:
    """The files to write, and what to tell."""

    files: dict[Path, bytes]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a dataset seem to be for."""

    every: Sequence[str]
    source: str | None
    reference: str | None
    output: str | None
    audio: Sequence[str]
    groups: Sequence[str]
    long_reference: bool
    """Whether references are sentences, not single words or numbers."""


def begin_experiment(asked: Beginning) -> Begun:
    """The experiment file, and the other files that it needs."""
    folder = asked.out.parent
    dataset = asked.dataset or _found_in(folder)
    files: dict[Path, bytes] = {}
    looked_at = dataset
    if dataset is None:
        looked_at = samples_folder() / SAMPLE
        dataset = folder / SAMPLE
        files[dataset] = looked_at.read_bytes()
    assert looked_at is not None
    columns = look_at(looked_at)
    kind = asked.target or ("recorded" if columns.output else "python")
    if kind not in TARGETS:
        raise SettingsError(f"There is no target of kind {kind!r}; known are {', '.join(TARGETS)}.")
    begun = Begun(files)
    target = _target(kind, columns, asked, begun)
    text = _written(dataset, folder, columns, target)
    begun.files = {**files, **begun.files, asked.out: text.encode()}
    return begun


def _found_in(folder: Path) -> Path | None:
    """The one dataset of a folder; None when there is none."""
    found = sorted(one for one in folder.glob("*") if one.suffix.lower() in _TABLES)
    if len(found) > 1:
        named = ", ".join(one.name for one in found[:5])
        raise SettingsError(
            f"There are several datasets here ({named}); name one with --dataset FILE."
        )
    return found[0] if found else None


def look_at(path: Path) -> Columns:
    """What the columns of a file are, by its first rows."""
    rows = list(islice(_turns(path), ROWS_LOOKED_AT))
    if not rows:
        raise SettingsError(f"The dataset {path} has no rows.")
    every = list(dict.fromkeys(name for row in rows for name in row))
    texts = [name for name in every if all(isinstance(row.get(name, ""), str) for row in rows)]
    reference = _first(_REFERENCES, every)
    output = _first(_OUTPUTS, every)
    if output is None and reference is not None:
        # Columns that the samples, and others, name after their systems.
        output = _like(rows, reference, [name for name in texts if name not in _INPUTS])
    audio = [name for name in texts if _names_sound(rows, name, path.parent)]
    others = [name for name in texts if name not in (reference, output)]
    source = _first(_INPUTS, others) or next(iter(others), next(iter(every), None))
    words = [str(row.get(reference, "")).split() for row in rows] if reference else []
    return Columns(
        every,
        source,
        reference,
        output,
        audio,
        [name for name in every if name in _GROUPS],
        long_reference=any(len(one) > 2 for one in words),
    )


def _turns(path: Path) -> Any:
    with path.open("rb") as file:
        for batch in DatasetReader(file, format_of(path.name)):
            yield from (turns[0] for turns in batch)


def _first(known: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in known if name in names), None)


def _like(
    rows: Sequence[Mapping[str, JsonValue]], reference: str, names: Sequence[str]
) -> str | None:
    """A column that says in some rows exactly what the reference says."""
    for name in names:
        if name != reference and any(
            row.get(name) and row.get(name) == row.get(reference) for row in rows
        ):
            return name
    return None


def _names_sound(rows: Sequence[Mapping[str, JsonValue]], name: str, folder: Path) -> bool:
    values = [str(row[name]) for row in rows if row.get(name)]
    return bool(values) and all(
        value.lower().endswith(_SOUND) and (folder / value).is_file() for value in values
    )


# --- the file ------------------------------------------------------------------------------------


def _target(kind: str, columns: Columns, asked: Beginning, begun: Begun) -> list[str]:
    if kind == "recorded":
        output = columns.output or columns.source or ""
        return [
            'kind = "recorded"                   # the outputs are in the dataset already',
            f"output = {_text(output)}",
        ]
    if kind == "python":
        return _python_target(columns, asked, begun)
    schema = TARGETS.find(kind).schema()
    _, _, name = schema["$ref"].rpartition("/")
    required = schema["$defs"][name].get("required", [])
    begun.notes.append(f"Fill in the settings of [target] first; GET /targets describes {kind}.")
    return [f'kind = "{kind}"', *(f'{name} = "..."  # fill in' for name in required)]


def _python_target(columns: Columns, asked: Beginning, begun: Begun) -> list[str]:
    stem = "".join(c if c.isalnum() else "_" for c in asked.out.stem)
    module = f"{stem}_target" if stem[:1].isalpha() else f"target_{stem}"
    argument = columns.source or ""
    if not argument.isidentifier():
        argument = "turn"
    lines = [
        '"""What the experiment tries: a function that is called with columns of the dataset."""',
        "",
        "",
        f"def answer({argument}):" if argument == columns.source else "def answer(**turn):",
        "    # Call your model here. This one gives back what it was given.",
        f"    return {argument}"
        if argument == columns.source
        else f"    return turn[{columns.source!r}]",
        "",
    ]
    begun.files[asked.out.parent / f"{module}.py"] = "\n".join(lines).encode()
    if asked.server_url is not None:
        begun.notes.append(
            f"A server runs at {asked.server_url}, which calls only functions that its setting "
            f"lab.python_allow names; add {module}.answer there, or run with another --data-dir."
        )
    return ['kind = "python"', f'function = "{module}:answer"']


def _written(dataset: Path, folder: Path, columns: Columns, target: Sequence[str]) -> str:
    shown = os.path.relpath(dataset, folder)
    lines = [
        "# An experiment: a dataset through a target, scored by evaluators.",
        f"name = {_text(dataset.stem)}",
        "",
        "[dataset]",
        f"file = {_text(shown)}",
        f"# Its columns: {_comment(', '.join(columns.every))}",
    ]
    if columns.audio:
        lines.append(f"audio = {msgspec.json.encode(list(columns.audio)).decode()}")
    lines += ["", "[target]", *target, "", *_evaluators(columns)]
    lines += [
        "[run]",
        "concurrency = 8                     # calls at once",
        "retries = 2                         # further tries of a call that failed",
        "",
        "[gate]                              # a gate that fails makes the command exit with 1",
        "max_failed = 0.02                   # share of the items that may have no score",
    ]
    if columns.reference:
        lines.append('# "exact.mean" = ">= 0.5"           # uncomment, and choose a limit')
        lines.append(
            '# "exact" = "not worse than last"   # than the last finished run of this name'
        )
    if columns.groups:
        named = ", ".join(columns.groups)
        lines += ["", f"# Results can be grouped by {_comment(named)}."]
    return "\n".join(lines) + "\n"


def _evaluators(columns: Columns) -> list[str]:
    if columns.reference is None:
        return [
            "# No column looks like a reference. To score outputs against one:",
            "# [[evaluators]]",
            '# kind = "exact"',
            '# reference = "..."',
            "",
        ]
    kinds = ["exact"]
    if columns.long_reference:
        kinds.append("chrf" if "chrf" in EVALUATORS and find_spec("sacrebleu") else "contains")
    lines: list[str] = []
    for kind in kinds:
        reference = f"reference = {_text(columns.reference)}"
        lines += ["[[evaluators]]", f'kind = "{kind}"', reference, ""]
    return lines


def _text(value: str) -> str:
    """Text as TOML writes it."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
