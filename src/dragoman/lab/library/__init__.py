"""The tenants' datasets: imported whole or not at all, read, exported."""

from dragoman.lab.library.bundle import bundled
from dragoman.lab.library.dataset_file import DatasetFile, OpenedTable, opened_table
from dragoman.lab.library.difference import DatasetDifference, difference
from dragoman.lab.library.export import exported
from dragoman.lab.library.library import (
    AudioSource,
    Imported,
    ImportProgress,
    Library,
    StoredAudio,
)
from dragoman.lab.library.sampling import sample_of

__all__ = [
    "AudioSource",
    "DatasetDifference",
    "DatasetFile",
    "ImportProgress",
    "Imported",
    "Library",
    "OpenedTable",
    "StoredAudio",
    "bundled",
    "difference",
    "exported",
    "opened_table",
    "sample_of",
]
