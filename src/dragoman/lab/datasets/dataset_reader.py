"""Reads a dataset file in batches: memory stays flat, and one problem refuses the whole file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import BinaryIO

from dragoman.errors import DatasetInvalid
from dragoman.lab.audio import AudioIntake, BadAudio, audio_columns
from dragoman.lab.datasets.formats import Format, records_of
from dragoman.lab.datasets.problems import MOST_PROBLEMS, LineProblem, Problems, Unreadable
from dragoman.lab.datasets.records import BadRecord, Record
from dragoman.lab.datasets.schema import ColumnsSeen, RowSchema
from dragoman.lab.model import JsonValue, Turn

Turns = tuple[Turn, ...]
"""The turns of one item; most items have one."""

BATCH_ITEMS = 1000
BATCH_BYTES = 4 * 1024 * 1024
TURNS = "turns"
"""The one column name with a meaning of its own: the list of an item's turns."""

DEFAULT_MAX_ITEMS = 10_000_000

_NAMES_SHOWN = 10


class DatasetReader:
    """The items of a file, to be iterated once, in batches.

    From the first problem on no more batches come; the file is read further only to find more
    problems, and the iteration ends with `DatasetInvalid`. The caller that stores the batches
    keeps them hidden until the iteration has succeeded.
    """

    def __init__(
        self,
        file: BinaryIO,
        file_format: Format,
        *,
        schema: RowSchema | None = None,
        audio: AudioIntake | None = None,
        max_items: int = DEFAULT_MAX_ITEMS,
        most_problems: int = MOST_PROBLEMS,
    ) -> None:
        self._records = records_of(file, file_format, max_items)
        # Only text needs converting to the schema's types; JSON has types of its own.
        self._values_are_text = file_format is Format.CSV
        self._given_schema = schema
        self._audio = audio
        self._audio_columns = () if schema is None else audio_columns(schema.document)
        if self._audio_columns and audio is None:
            raise DatasetInvalid(
                f"Nothing was imported. The column {self._audio_columns[0]} refers to audio files, "
                "which are not here; send a .zip that holds the table and the audio.",
                details={"field": "file"},
            )
        self._max_items = max_items
        self._problems = Problems(most_problems, counted=file_format.counts)
        self._seen = ColumnsSeen()
        self.items = 0
        """How many valid items were read so far."""

    def schema(self) -> dict[str, JsonValue]:
        """The JSON-schema of a turn: the one given, completed by the columns that were seen."""
        return self._seen.schema(self._given_schema)

    def __iter__(self) -> Iterator[list[Turns]]:
        batch: list[Turns] = []
        batch_bytes = 0
        for turns, size_bytes in self._good_items():
            batch.append(turns)
            batch_bytes += size_bytes
            if len(batch) >= BATCH_ITEMS or batch_bytes >= BATCH_BYTES:
                yield batch
                batch, batch_bytes = [], 0
        if self._problems:
            raise self._problems.as_error()
        if batch:
            yield batch

    def _good_items(self) -> Iterator[tuple[Turns, int]]:
        """The items before the first problem; what follows it is only checked."""
        try:
            for record in self._records:
                if self._problems.enough():
                    self._problems.stop_here()
                    return
                turns = self._turns(record)
                if turns is not None and not self._problems:
                    self.items += 1
                    yield turns, record.size_bytes if isinstance(record, Record) else 0
        except Unreadable as end:
            self._problems.add(end.problem)
            self._problems.stop_here()
        finally:
            close = getattr(self._records, "close", None)
            if close is not None:  # a process may be reading
                close()

    def _turns(self, record: Record | BadRecord) -> Turns | None:
        """The record's turns, or None when it has a problem, which is noted."""
        if isinstance(record, BadRecord):
            self._problems.add(LineProblem(record.line, record.message))
            return None
        if self.items >= self._max_items:
            raise Unreadable(record.line, f"more than the {self._max_items:,} items allowed")
        turns = _split(record)
        if isinstance(turns, LineProblem):
            self._problems.add(turns)
            return None
        if self._given_schema is not None and self._values_are_text:
            turns = tuple(self._given_schema.from_text(turn) for turn in turns)
        if not self._fits(record.line, turns):
            return None
        return self._with_audio(record.line, turns) if self._audio_columns else turns

    def _with_audio(self, line: int, turns: Turns) -> Turns | None:
        """The turns with what is known of their audio files, or None when one cannot be used."""
        assert self._audio is not None
        if self._problems:
            return None  # nothing will be imported: no file needs to be read
        found: list[Turn] = []
        for turn in turns:
            known = dict(turn)
            for column in self._audio_columns:
                if known.get(column) is None:
                    continue
                try:
                    known[column] = self._audio.take(known[column])
                except BadAudio as error:
                    self._problems.add(LineProblem(line, str(error), column))
                    return None
            found.append(known)
        return tuple(found)

    def _fits(self, line: int, turns: Turns) -> bool:
        fits = True
        for number, turn in enumerate(turns):
            place = "" if len(turns) == 1 else f"turns[{number}]"
            if not self._seen.add(turn):
                raise Unreadable(line, "too many different columns; do the keys hold data?")
            if self._given_schema is None:
                continue
            for column, message in self._given_schema.problems(turn):
                fits = False
                named = ".".join(part for part in (place, column) if part)
                self._problems.add(LineProblem(line, message, named or None))
        return fits


def _split(record: Record) -> Turns | LineProblem:
    values = record.values
    if TURNS not in values:
        return (values,) if values else LineProblem(record.line, "the record has no columns")
    turns = values[TURNS]
    if not isinstance(turns, list) or not turns:
        return LineProblem(record.line, "expected a list of at least one turn", TURNS)
    if len(values) > 1:
        others = ", ".join(islice((name for name in values if name != TURNS), _NAMES_SHOWN))
        return LineProblem(record.line, f"{others} beside `turns`; put columns into the turns")
    for number, turn in enumerate(turns):
        if not isinstance(turn, Mapping) or not turn:
            return LineProblem(record.line, "expected an object with columns", f"turns[{number}]")
    return tuple(turn for turn in turns if isinstance(turn, Mapping))
