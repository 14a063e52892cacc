"""Every step between the states of an attempt that is allowed.

All states before FINISHED hold a slot of the attempt's node.
"""

from __future__ import annotations

from enum import StrEnum

from dragoman.live.protocol import AttemptState

TRANSITIONS: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.DISPATCHED: frozenset(
        {
            AttemptState.ACCEPTED,
            AttemptState.RUNNING,
            AttemptState.CANCELLING,
            AttemptState.FINISHED,
        }
    ),
    AttemptState.ACCEPTED: frozenset(
        {AttemptState.RUNNING, AttemptState.CANCELLING, AttemptState.FINISHED}
    ),
    AttemptState.RUNNING: frozenset({AttemptState.CANCELLING, AttemptState.FINISHED}),
    AttemptState.CANCELLING: frozenset({AttemptState.FINISHED}),
    AttemptState.FINISHED: frozenset({AttemptState.RELEASED}),
    AttemptState.RELEASED: frozenset(),
}
"""Forward only; steps may be skipped. A repeat of a step already made is harmless."""

ORDER: dict[AttemptState, int] = {
    AttemptState.DISPATCHED: 0,
    AttemptState.ACCEPTED: 1,
    AttemptState.RUNNING: 2,
    AttemptState.CANCELLING: 3,
    AttemptState.FINISHED: 4,
    AttemptState.RELEASED: 5,
}
"""How far along a state is: a step to a lower or equal one is a repeat."""


class Strategy(StrEnum):
    """How one node is chosen among those that have a free slot."""

    RANDOM = "random"
    POWER_OF_TWO = "power_of_two"
    LEAST_LOADED = "least_loaded"
    LATENCY_WEIGHTED = "latency_weighted"
