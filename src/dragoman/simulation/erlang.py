"""Erlang's formulas: what theory says of so many servers under so much load.

They hold for arrivals at random, service times of the exponential shape and servers that are all
alike. Where a scenario is so simple, the simulation must agree with them; a test sees to that.
"""

from __future__ import annotations


def erlang_b(servers: int, erlangs: float) -> float:
    """The share of arrivals that finds every server busy, where none of them waits."""
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = erlangs * blocked / (server + erlangs * blocked)
    return blocked


def erlang_c(servers: int, erlangs: float) -> float:
    """The share of arrivals that has to wait, where all of them do until they are served."""
    if erlangs >= servers:
        return 1.0
    blocked = erlang_b(servers, erlangs)
    return servers * blocked / (servers - erlangs * (1 - blocked))


def mean_wait(servers: int, erlangs: float, mean_service: float) -> float:
    """How long arrivals wait on average, in the unit of the service time."""
    if erlangs >= servers:
        return float("inf")
    return erlang_c(servers, erlangs) * mean_service / (servers - erlangs)


def servers_for_loss(erlangs: float, most_refused: float) -> int:
    """The fewest servers that refuse no more than this share."""
    servers, blocked = 0, 1.0
    while blocked > most_refused:
        servers += 1
        blocked = erlangs * blocked / (servers + erlangs * blocked)
    return servers
