"""What became of an item: turn by turn, with everything that was said about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from dragoman.lab.evaluators import Score
from dragoman.lab.failures import Failure, shortened
from dragoman.lab.states import ItemStatus
from dragoman.lab.targets import Output

NOTHING: Mapping[str, Score] = MappingProxyType({})


class TurnOutcome(msgspec.Struct, frozen=True):
    """One turn of a try: the output or why there is none, and what each evaluator said of it."""

    output: Output | None
    failure: Failure | None
    scores: Mapping[str, Score | Failure]

    @property
    def status(self) -> ItemStatus:
        return ItemStatus.SUCCESS if self.error is None else ItemStatus.FAIL

    @property
    def error(self) -> Failure | None:
        """Why the turn failed: the target's failure, else the first evaluator's; None if well."""
        if self.failure is not None:
            return self.failure
        for name, said in self.scores.items():
            if isinstance(said, Failure):
                message = shortened(f"The evaluator {name!r} failed: {said.message}")
                return msgspec.structs.replace(said, message=message)
        return None


class ItemOutcome(msgspec.Struct, frozen=True):
    """One try of an item; the last one is the item's end."""

    try_no: int
    turns: tuple[TurnOutcome, ...]

    @property
    def status(self) -> ItemStatus:
        return ItemStatus.SUCCESS if self.error is None else ItemStatus.FAIL

    @property
    def error(self) -> Failure | None:
        """The first thing that went wrong; None when all turns are well."""
        return next((turn.error for turn in self.turns if turn.error is not None), None)

    @property
    def retryable(self) -> bool:
        """Whether another try may help: something failed that may go well the next time."""
        return any(failure.retryable for turn in self.turns for failure in _failures(turn))


class Reusable(msgspec.Struct, frozen=True):
    """What already went well, in an earlier run or try, and is not called again."""

    outputs: Mapping[int, Output] = MappingProxyType({})
    """By the number of the turn, from 0."""
    scores: Mapping[int, Mapping[str, Score]] = MappingProxyType({})
    """By the number of the turn and the evaluator's name. Scores of a turn without a reusable
    output are not used: they were given to another answer."""
    failures: Mapping[int, Failure] = MappingProxyType({})
    """By turn: why it has no output. Its target is not called again."""
    first_try: int = 1
    """The number of the try to begin with; tries before it were lost with their worker."""

    def scores_of(self, turn_no: int) -> Mapping[str, Score]:
        return self.scores.get(turn_no, NOTHING) if turn_no in self.outputs else NOTHING


def _failures(turn: TurnOutcome) -> list[Failure]:
    found = [said for said in turn.scores.values() if isinstance(said, Failure)]
    return found if turn.failure is None else [turn.failure, *found]
