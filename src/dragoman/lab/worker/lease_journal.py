"""The journal of one item: the work done under its lease, in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from dragoman.ids import TenantId
from dragoman.lab.evaluators import Score
from dragoman.lab.failures import EvaluatorFailure, Failure, Revoked, TargetError, shortened
from dragoman.lab.model import RecordId
from dragoman.lab.repository import (
    JournalEntry,
    Lease,
    OutputEntry,
    ScoreEntry,
    TryEntry,
    TurnEntry,
    evaluator_record_id,
    failure_record_id,
    storable,
    target_record_id,
)
from dragoman.lab.targets import Output
from dragoman.lab.worker.combiner import Combiner, Unstorable
from dragoman.lab.worker.execution import ItemOutcome, TurnOutcome


class Handover(msgspec.Struct, frozen=True):
    """What becomes of an item's place when its calls are over."""

    successor: Lease | None = None
    """The item that has taken it."""
    waits: bool = False
    """Whether it waits for the next item."""


GIVEN_BACK = Handover()
"""Any worker may have it."""


def _give_back() -> Handover:
    return GIVEN_BACK


class LeaseJournal:
    """Writes what is done on an item, for as long as its lease holds."""

    def __init__(
        self,
        combiner: Combiner,
        tenant: TenantId,
        lease: Lease,
        evaluator_numbers: Mapping[str, int],
        *,
        waits_for_outputs: bool = True,
        hand_over: Callable[[], Handover] = _give_back,
    ) -> None:
        """`hand_over` is called when no more calls are made for the item.

        `waits_for_outputs`: whether an output is stored before anything is done with it.
        """
        self._waits_for_outputs = waits_for_outputs
        self._hand_over = hand_over
        self._combiner = combiner
        self._tenant = tenant
        self._lease = lease
        self._numbers = evaluator_numbers
        self._on_their_way: list[asyncio.Future[bool]] = []
        self._tries_logged = 0

    async def target_done(self, turn_no: int, result: Output | Failure) -> None:
        if isinstance(result, Failure):
            return  # it is written with the try, and there is nothing in it to be reused
        lease = self._lease
        output = OutputEntry(
            target_record_id(lease.lineage, lease.key, turn_no),
            turn_no,
            msgspec.json.encode(result.columns).decode(),
            result.main,
            result.latency_ms,
            result.tokens,
            result.cost,
            result.cached,
            result.first_token_ms,
        )
        if self._waits_for_outputs:
            await self._enter(output)
        else:
            self._send(output)

    async def evaluator_done(self, turn_no: int, name: str, result: Score | Failure) -> None:
        if isinstance(result, Failure):
            return
        record_id = self._score_id(turn_no, name)
        # It is written before anything later, so the caller need not wait for it.
        self._send(
            ScoreEntry(
                record_id,
                turn_no,
                name,
                result.score,
                _storable(result.label),
                _storable(result.reason),
                _listed(result.statistics),
                tokens=result.tokens,
                cost=result.cost,
            )
        )

    async def try_over(self, outcome: ItemOutcome, *, last: bool) -> None:
        # Execution counts from one; a row that joined again counts on from its earlier tries.
        try_no = self._lease.first_try_no + outcome.try_no - 1
        for turn_no, turn in enumerate(outcome.turns):
            self._enter_failures(turn_no, turn, try_no)
        turns = tuple(
            self._turn(turn_no, turn, try_no) for turn_no, turn in enumerate(outcome.turns)
        )
        place = self._hand_over() if last else GIVEN_BACK
        await self._enter(
            TryEntry(try_no, outcome.status, last, turns, place.successor, place.waits),
            soon=place.successor is not None,
        )
        self._tries_logged += 1

    async def give_up(self, refused: Unstorable, first_try: int, turns: int) -> None:
        """End the item as failed, because the database refuses one of its values."""
        what = refused.refused.what
        if isinstance(what, ScoreEntry):
            code, thing = EvaluatorFailure.code, f"what the evaluator `{what.name}` said"
        else:
            code, thing = TargetError.code, "the output"
        said = shortened(f"The database refused {thing} ({refused.reason}).")
        failed = TurnOutcome(None, Failure(code, said), {})
        self._on_their_way.clear()
        try_no = first_try + self._tries_logged
        await self.try_over(ItemOutcome(try_no, (failed,) * turns), last=True)

    def _turn(self, turn_no: int, turn: TurnOutcome, try_no: int) -> TurnEntry:
        lease, error = self._lease, turn.error
        output_id = (
            None if turn.output is None else target_record_id(lease.lineage, lease.key, turn_no)
        )
        return TurnEntry(
            turn_no,
            turn.status,
            output_id,
            None if error is None else error.code,
            None if error is None else storable(error.message),
            tuple(
                (
                    self._numbers[name],
                    self._failure_id(turn_no, name, try_no)
                    if isinstance(said, Failure)
                    else self._score_id(turn_no, name),
                )
                for name, said in turn.scores.items()
            ),
        )

    def _enter_failures(self, turn_no: int, turn: TurnOutcome, try_no: int) -> None:
        for name, said in turn.scores.items():
            if isinstance(said, Failure):
                record_id = self._failure_id(turn_no, name, try_no)
                failed = ScoreEntry(
                    record_id,
                    turn_no,
                    name,
                    error_code=said.code,
                    error_message=storable(said.message),
                    tokens=said.tokens,
                    cost=said.cost,
                )
                self._send(failed)

    def _score_id(self, turn_no: int, name: str) -> RecordId:
        lease = self._lease
        return evaluator_record_id(lease.lineage, lease.key, turn_no, self._numbers[name])

    def _failure_id(self, turn_no: int, name: str, try_no: int) -> RecordId:
        lease = self._lease
        return failure_record_id(lease.run_id, lease.key, turn_no, self._numbers[name], try_no)

    def _entry(self, what: OutputEntry | ScoreEntry | TryEntry) -> JournalEntry:
        return JournalEntry(self._tenant, self._lease, what)

    def _send(self, what: OutputEntry | ScoreEntry) -> None:
        self._on_their_way.append(self._combiner.enter(self._entry(what), soon=True))

    async def _enter(self, what: OutputEntry | TryEntry, *, soon: bool = False) -> None:
        for written in self._on_their_way:
            if written.done():
                written.result()  # raises why it was not written: the journal may have no gaps
        if not await self._combiner.enter(self._entry(what), soon=soon):
            raise Revoked


def _listed(statistics: tuple[float, ...] | None) -> str | None:
    return None if statistics is None else msgspec.json.encode(statistics).decode()


def _storable(text: str | None) -> str | None:
    return None if text is None else storable(text)
