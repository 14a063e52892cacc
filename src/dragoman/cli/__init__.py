"""The ``dragoman`` command."""

from dragoman.cli.app import main

__all__ = ["main"]
