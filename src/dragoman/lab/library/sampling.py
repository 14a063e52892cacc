"""A sample of a file that is not imported."""

from __future__ import annotations

from dragoman.errors import DatasetEmpty
from dragoman.lab.audio import AudioFolder, AudioIntake, audio_columns
from dragoman.lab.datasets import DatasetReader, RowSchema
from dragoman.lab.estimates import Sample, drawn_from
from dragoman.lab.library.dataset_file import OpenedTable
from dragoman.lab.model import Turn, VersionId

_SAMPLE = VersionId("sample")


def sample_of(table: OpenedTable, max_items: int, folder: AudioFolder | None) -> Sample:
    """Read and check the whole file, as an import does, and keep a few of its items.

    The audio that those items name is copied into the folder, where targets find it.
    """
    files = None if table.audio is None else table.audio.files
    reader = DatasetReader(
        table.file,
        table.file_format,
        schema=None if table.schema is None else RowSchema(table.schema),
        audio=None if files is None else AudioIntake(files),
        max_items=max_items,
    )
    drawn = drawn_from(reader)
    if not drawn.items:
        raise DatasetEmpty("The dataset has no items; give a file that has some.")
    schema = reader.schema()
    if files is not None and folder is not None:
        intake = AudioIntake(files, folder, _SAMPLE)
        for turn in (turn for turns in drawn.sample for turn in turns):
            _take(turn, audio_columns(schema), intake)
        for file in intake.fresh():
            assert file.staged is not None, "it is copied"
            folder.keep(file.sha256, file.staged)
    return Sample(drawn.sample, drawn.items, drawn.turns, schema)


def _take(turn: Turn, columns: tuple[str, ...], intake: AudioIntake) -> None:
    for column in columns:
        if turn.get(column) is not None:
            intake.take(turn[column])
