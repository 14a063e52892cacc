"""One scheduler for live speech translation and for the experiments that improve it."""

from dragoman.version import __version__

__all__ = ["__version__"]
