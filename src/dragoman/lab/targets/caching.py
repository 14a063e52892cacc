"""Answers given again: a question that a target was asked before costs nothing the second time."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol, runtime_checkable

import msgspec

from dragoman.lab.model import JsonValue, TargetSpec, Turn
from dragoman.lab.plugins import Answers
from dragoman.lab.targets.outputs import Output, PastTurn, usage_problem
from dragoman.lab.targets.target import Target

_NOT_DECIDING = frozenset({"api_key", "api_key_env", "price", "timeout_seconds"})
"""Settings that do not change what is answered. Keys are among them: one may be renewed."""

_canonical = msgspec.json.Encoder(order="sorted").encode


@runtime_checkable
class CacheableTarget(Protocol):
    """A target that can tell what it would ask."""

    async def asked(self, turn: Turn, history: Sequence[PastTurn]) -> JsonValue:
        """Everything about a turn that decides the answer."""
        ...


class _Kept(msgspec.Struct, frozen=True):
    """An answer as it is kept: without its latency, tokens and cost, which were another call's."""

    columns: dict[str, JsonValue]
    main: str


def answer_key(*parts: object) -> str:
    """The key of a question: equal parts have equal keys."""
    return sha256(_canonical(parts)).hexdigest()


class CachedTarget:
    """Answers from what was kept, and keeps what is answered. Failures are not kept."""

    def __init__(self, target: Target, spec: TargetSpec, answers: Answers) -> None:
        self._target = target
        self._answers = answers
        deciding = {
            name: value for name, value in spec.settings.items() if name not in _NOT_DECIDING
        }
        self._fingerprint = answer_key("target", spec.kind, deciding)

    async def call(self, turn: Turn, history: Sequence[PastTurn], repetition: int = 0) -> Output:
        """The answer; each repetition of an item, from 0, has an answer of its own."""
        key = answer_key(self._fingerprint, repetition, await self._asked(turn, history))
        found = await self._answers.find(key)
        if found is not None:
            kept = msgspec.json.decode(found, type=_Kept)
            return Output(kept.columns, kept.main, cached=True)
        output = await self._target.call(turn, history)
        if usage_problem(output) is None:
            await self._answers.keep(
                key, msgspec.json.encode(_Kept(dict(output.columns), output.main))
            )
        return output

    async def close(self) -> None:
        await self._target.close()

    async def _asked(self, turn: Turn, history: Sequence[PastTurn]) -> JsonValue:
        if isinstance(self._target, CacheableTarget):
            return await self._target.asked(turn, history)
        before: list[JsonValue] = [[dict(one.turn), dict(one.output.columns)] for one in history]
        return [dict(turn), before]
