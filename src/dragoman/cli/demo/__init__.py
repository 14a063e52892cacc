"""``dragoman demo``: a server, real and simulated nodes, live traffic and two experiments."""

from dragoman.cli.demo.command import demo

__all__ = ["demo"]
