"""Dataset files: read as a stream, checked line by line, imported whole or not at all."""

from dragoman.lab.datasets.formats import FORMATS, Format, format_of
from dragoman.lab.datasets.problems import MOST_PROBLEMS, Problem
from dragoman.lab.datasets.reading import DatasetReader, Turns
from dragoman.lab.datasets.schema import MAX_COLUMNS, RowSchema, columns_of

__all__ = [
    "FORMATS",
    "MAX_COLUMNS",
    "MOST_PROBLEMS",
    "DatasetReader",
    "Format",
    "Problem",
    "RowSchema",
    "Turns",
    "columns_of",
    "format_of",
]
