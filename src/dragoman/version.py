"""The version of this program, in one place.

It comes from the tags of the repository. Reading it from a file that the build writes takes no
time; asking the installed package for its metadata would make every small command slower.
"""

from __future__ import annotations

try:
    from dragoman.built_version import __version__
except ImportError:  # run from the source, neither built nor installed
    __version__ = "0.0.0"

__all__ = ["__version__"]
