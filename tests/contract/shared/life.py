"""A random but repeatable life: lost answers, old news, operations that are carried out late.

Each operation may be asked twice in a row, again much later, or carried out only when its asker
has long given up. Whenever it is carried out, the answer and what is kept must be what the model
says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from tests.contract.shared.bench import Bench

Operation = Callable[[], None]

STRIDE_SECONDS = 10.0
"""Time moves in strides much longer than a run takes, so that nothing runs out by accident."""


class Life(ABC):
    """One life, driven by one seed."""

    steps: dict[Operation, int]
    """What may happen, and how often."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = Random(seed)
        self._asked: list[Operation] = []
        self._late: list[Operation] = []

    def run(self, steps: int) -> None:
        """Live, then wind everything up."""
        self.start()
        for step in self.random.choices(list(self.steps), list(self.steps.values()), k=steps):
            step()
            self.check()
        while self._late:
            self.carry_out_late()
            self.check()
        self.wind_up()

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """What must be true at all times."""

    @abstractmethod
    def wind_up(self) -> None:
        """Everything ends; then nothing is left."""

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def ask(self, operation: Operation) -> None:
        """Carry it out once, twice, or when its asker has given up."""
        if self.chance(0.15):
            self._late.append(operation)
            return
        self._asked.append(operation)
        for _ in range(2 if self.chance(0.25) else 1):
            operation()

    def ask_again(self) -> None:
        """An asker that was paused comes back to what it asked long ago."""
        if self._asked:
            self.random.choice(self._asked[-30:] if self.chance(0.7) else self._asked)()

    def carry_out_late(self) -> None:
        if self._late:
            self._late.pop(self.random.randrange(len(self._late)))()
