"""The judge at work: votes, one repair of each, both orders of a pair, and what it all cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

import msgspec

from dragoman.lab.evaluators.evaluator import FAIL, PASS, Score
from dragoman.lab.evaluators.judge.prompts import (
    JudgeVerdict,
    NoVerdict,
    pair_messages,
    read_score,
    read_winner,
    repair_messages,
    rubric_messages,
)
from dragoman.lab.evaluators.judge.settings import OUTPUT_PLACE, JudgeSettings
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.evaluators.values import as_text, output_of, reference_of
from dragoman.lab.failures import CalledTooOften, EvaluatorFailure, TargetError, shortened
from dragoman.lab.model import Turn
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output, answer_key
from dragoman.openai_client import Client, find_key
from dragoman.outbound import HttpCaller, filled, sent_headers, sent_url

WIN, TIE, LOSS = "win", "tie", "loss"

_SHOWN_CHARACTERS = 200
_MOST_INTERRUPTED = 10_000

Messages = list[dict[str, str]]
Read = Callable[[str], JudgeVerdict]


class _Judgement:
    """One output being judged: the answers so far, and what they used up.

    Tokens that a server does not report are not known, and not 0.
    """

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.tokens: int | None = None
        self.cost: float | None = None

    def add(self, tokens: int | None, cost: float | None) -> None:
        if tokens is not None:
            self.tokens = (self.tokens or 0) + tokens
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


class JudgeEvaluator:
    """Asks a model what it thinks of an output."""

    cpu_bound = False

    def __init__(
        self, name: str, settings: JudgeSettings, context: Context, processes: FunctionProcessPool
    ) -> None:
        self.name = name
        self.calls = 0
        self._settings = settings
        self._answers = context.answers if settings.cache else None
        key = find_key(settings, "evaluator", context.sendable_keys)
        caller = HttpCaller(context.address_rules)
        headers = sent_headers(
            settings.headers, "evaluator.headers", settings.url, context.sendable_keys
        )
        url = sent_url(settings.url, "evaluator.url", context.sendable_keys)
        self._client = Client(
            settings, key, caller, context.clock, who="judge", headers=headers, url=url
        )
        self._interrupted: dict[str, _Judgement] = {}
        """Judgements that a rate limit interrupted: their answers are paid for, and are not asked
        for again."""

    async def score(self, turn: Turn, output: Output) -> Score:
        orders = self._orders(turn, output)
        asked = answer_key(self.name, orders)
        judgement = self._interrupted.pop(asked, None) or _Judgement()
        try:
            verdicts = [
                await self._verdict(judgement, vote, messages)
                for vote in range(self._settings.votes)
                for messages in orders
            ]
        except CalledTooOften:
            if len(self._interrupted) >= _MOST_INTERRUPTED:  # left by items that were stopped
                self._interrupted.clear()
            self._interrupted[asked] = judgement
            raise
        except (EvaluatorFailure, TargetError) as error:
            raise EvaluatorFailure(
                error.message,
                retryable=error.retryable,
                tokens=judgement.tokens,
                cost=judgement.cost,
            ) from None
        found = self._rated(verdicts) if self._settings.baseline is None else _compared(verdicts)
        return msgspec.structs.replace(found, tokens=judgement.tokens, cost=judgement.cost)

    async def close(self) -> None:
        await self._client.close()

    # --- asking ---------------------------------------------------------------------------------

    def _orders(self, turn: Turn, output: Output) -> Sequence[Messages]:
        """The conversations of one vote: one, or both orders of a pair."""
        settings = self._settings
        text = as_text(output_of(output, settings.output))
        rubric = self._rubric(turn, text)
        shown = {
            name: as_text(reference_of(turn, column))
            for name, column in (("input", settings.input), ("reference", settings.reference))
            if column is not None
        }
        if settings.baseline is None:
            texts = {**shown, "output": text}
            return [rubric_messages(rubric, texts, settings.lowest, settings.highest)]
        other = as_text(reference_of(turn, settings.baseline))
        return [
            pair_messages(rubric, {**shown, "first": first, "second": second})
            for first, second in ((text, other), (other, text))
        ]

    def _rubric(self, turn: Turn, text: str) -> str:
        try:
            return as_text(filled(self._settings.rubric, {**turn, OUTPUT_PLACE: text}))
        except KeyError as missing:
            raise EvaluatorFailure(
                f"The turn has no column `{missing.args[0]}`.", retryable=False
            ) from None

    async def _verdict(self, judgement: _Judgement, vote: int, messages: Messages) -> JudgeVerdict:
        """The verdict of one call, which may be repaired once."""
        question = answer_key("judge", self._identity(), vote, messages)
        known = judgement.answers.get(question) or await self._found(question)
        if known is not None:
            with suppress(NoVerdict):  # kept by a version that read answers in another way
                return self._read(known)
        answer = await self._ask(messages, vote, judgement)
        try:
            verdict = self._read(answer)
        except NoVerdict as first:
            repairing = repair_messages(messages, answer, str(first))
            repaired = await self._ask(repairing, vote, judgement)
            try:
                verdict = self._read(repaired)
            except NoVerdict as second:
                said = shortened(" ".join(repaired.split()), _SHOWN_CHARACTERS) or "(nothing)"
                # Another try would most likely bring the same, and be paid for again.
                raise EvaluatorFailure(
                    f"The judge's answer cannot be used, also when asked again: {second}. "
                    f"It answered: {said}",
                    retryable=False,
                ) from None
            answer = repaired
        judgement.answers[question] = answer
        if self._answers is not None:
            await self._answers.keep(question, msgspec.json.encode(answer))
        return verdict

    async def _ask(self, messages: Messages, vote: int, judgement: _Judgement) -> str:
        settings = self._settings
        options: dict[str, Any] = {
            **settings.extra,
            "temperature": settings.heat,
            "max_tokens": settings.max_tokens,
        }
        if settings.seed is not None:
            options["seed"] = settings.seed + vote
        self.calls += 1
        reply = await self._client.chat(messages, options, stream=False)
        judgement.add(reply.tokens, reply.cost)
        return reply.text

    def _read(self, answer: str) -> JudgeVerdict:
        if self._settings.baseline is not None:
            return read_winner(answer)
        return read_score(answer, self._settings.lowest, self._settings.highest)

    async def _found(self, question: str) -> str | None:
        if self._answers is None:
            return None
        kept = await self._answers.find(question)
        return None if kept is None else msgspec.json.decode(kept, type=str)

    def _identity(self) -> Mapping[str, Any]:
        """What decides a judge's answer beside the messages."""
        settings = self._settings
        return {
            "url": settings.url,
            "model": settings.model,
            "headers": settings.headers,
            "heat": settings.heat,
            "max_tokens": settings.max_tokens,
            "seed": settings.seed,
            "extra": settings.extra,
        }

    # --- counting -------------------------------------------------------------------------------

    def _rated(self, verdicts: Sequence[JudgeVerdict]) -> Score:
        score = fmean(one.score for one in verdicts)
        label = None
        if self._settings.pass_from is not None:
            label = PASS if score >= self._settings.pass_from else FAIL
        return Score(score, label, _reasons(verdicts, [f"{one.score:g}" for one in verdicts]))


def _compared(verdicts: Sequence[JudgeVerdict]) -> Score:
    """The share of wins, a tie counting half.

    A judge that prefers what stands first, or last, contradicts itself when the two are swapped:
    such a vote is a tie.
    """
    votes = []
    for straight, swapped in zip(verdicts[::2], verdicts[1::2], strict=True):
        agreed = (straight.score + (1.0 - swapped.score)) / 2
        votes.append(1.0 if agreed > 0.5 else 0.0 if agreed < 0.5 else 0.5)
    score = fmean(votes)
    label = WIN if score > 0.5 else LOSS if score < 0.5 else TIE
    marks = [
        f"{'shown first' if number % 2 == 0 else 'shown second'}: "
        f"{_outcome(one.score if number % 2 == 0 else 1.0 - one.score)}"
        for number, one in enumerate(verdicts)
    ]
    return Score(score, label, _reasons(verdicts, marks))


def _outcome(score: float) -> str:
    return WIN if score > 0.5 else LOSS if score < 0.5 else TIE


def _reasons(verdicts: Sequence[JudgeVerdict], marks: Sequence[str]) -> str | None:
    if len(verdicts) == 1:
        return shortened(verdicts[0].reason) or None
    told = [f"[{mark}] {one.reason}".strip() for mark, one in zip(marks, verdicts, strict=True)]
    return shortened("\n".join(told))
