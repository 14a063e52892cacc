"""``dragoman cluster``: look after several instances that work as one."""

from dragoman.cli.cluster.command import app

__all__ = ["app"]
