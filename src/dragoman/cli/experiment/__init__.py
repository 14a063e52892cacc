"""``dragoman experiment``: run experiments from files, and look after those there are."""

from dragoman.cli.experiment.command import app

__all__ = ["app"]
