"""``dragoman demo``: a server, a simulated fleet, live traffic and two experiments."""

from dragoman.cli.demo.command import demo

__all__ = ["demo"]
