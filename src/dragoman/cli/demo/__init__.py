"""``dragoman demo``: a server, a simulated fleet and live traffic, to look around in."""

from dragoman.cli.demo.command import demo

__all__ = ["demo"]
