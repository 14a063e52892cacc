"""Dataset files: read as a stream, checked line by line, imported whole or not at all."""

from dragoman.lab.datasets.dataset_reader import TURNS, DatasetReader, Turns
from dragoman.lab.datasets.formats import Format, format_of
from dragoman.lab.datasets.parquet_file import ParquetMark
from dragoman.lab.datasets.problems import MOST_PROBLEMS, LineProblem
from dragoman.lab.datasets.schema import MAX_COLUMNS, RowSchema, columns_of

__all__ = [
    "MAX_COLUMNS",
    "MOST_PROBLEMS",
    "TURNS",
    "DatasetReader",
    "Format",
    "LineProblem",
    "ParquetMark",
    "RowSchema",
    "Turns",
    "columns_of",
    "format_of",
]
