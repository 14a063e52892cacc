"""Datasets on record: brought in from files whole or not at all, looked at, written out again."""

from dragoman.lab.library.difference import Difference, difference
from dragoman.lab.library.export import exported
from dragoman.lab.library.library import Imported, Library

__all__ = ["Difference", "Imported", "Library", "difference", "exported"]
