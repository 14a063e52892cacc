"""The tenants' datasets: imported whole or not at all, read, exported."""

from dragoman.lab.library.difference import Difference, difference
from dragoman.lab.library.export import exported
from dragoman.lab.library.library import Imported, Library

__all__ = ["Difference", "Imported", "Library", "difference", "exported"]
