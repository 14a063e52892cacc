"""``dragoman cluster``: the instances of a cluster and its dead letters."""

from dragoman.cli.cluster.command import app

__all__ = ["app"]
