"""Choosing one node among those with a free slot: pure functions over bit masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from dragoman.live.ledger.states import Strategy

_BLIND_DRAWS = 6


class SeatChoice(Protocol):
    """What a choice looks at."""

    slots: int
    mean_ms: float

    @property
    def held_count(self) -> int: ...


def indexes(mask: int) -> list[int]:
    """The positions of the set bits, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def draw(mask: int, random: Random) -> int:
    """One set bit of a mask that has some, each with the same chance.

    A few blind draws over the width settle a dense mask without unpacking it.
    """
    width = mask.bit_length()
    for _ in range(_BLIND_DRAWS):
        index = int(random.random() * width)
        if mask >> index & 1:
            return index
    found = indexes(mask)
    return found[int(random.random() * len(found))]


def load(seat: SeatChoice) -> float:
    """The share of its slots that a node has in use."""
    return seat.held_count / seat.slots


def expected_ms(seat: SeatChoice) -> float:
    """How long one more job would take there: its pace, and how busy it is.

    A node not measured yet counts as instant, so that it gets measured.
    """
    return seat.mean_ms * (1.0 + load(seat))


def _random(mask: int, seats: Sequence[SeatChoice | None], random: Random) -> int:
    return draw(mask, random)


def _power_of_two(mask: int, seats: Sequence[SeatChoice | None], random: Random) -> int:
    first = draw(mask, random)
    others = mask & ~(1 << first)
    if not others:
        return first
    second = draw(others, random)
    return second if _cost(seats, second, load) < _cost(seats, first, load) else first


def _least_loaded(mask: int, seats: Sequence[SeatChoice | None], random: Random) -> int:
    return _cheapest(mask, seats, load, random)


def _latency_weighted(mask: int, seats: Sequence[SeatChoice | None], random: Random) -> int:
    return _cheapest(mask, seats, expected_ms, random)


def _cost(
    seats: Sequence[SeatChoice | None], index: int, cost: Callable[[SeatChoice], float]
) -> float:
    seat = seats[index]
    return cost(seat) if seat is not None else float("inf")


def _cheapest(
    mask: int,
    seats: Sequence[SeatChoice | None],
    cost: Callable[[SeatChoice], float],
    random: Random,
) -> int:
    """The lowest cost; among equals each has the same chance, so that jobs do not herd."""
    costs = [(_cost(seats, index, cost), index) for index in indexes(mask)]
    lowest = min(costs)[0]
    equals = [index for value, index in costs if value == lowest]
    return equals[int(random.random() * len(equals))]


CHOICES: dict[Strategy, Callable[[int, Sequence[SeatChoice | None], Random], int]] = {
    Strategy.RANDOM: _random,
    Strategy.POWER_OF_TWO: _power_of_two,
    Strategy.LEAST_LOADED: _least_loaded,
    Strategy.LATENCY_WEIGHTED: _latency_weighted,
}
