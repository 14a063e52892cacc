"""How a judge is described, and whether the description can work."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators.judge.prompts import prompt_hash
from dragoman.lab.model import JsonValue
from dragoman.lab.plugins import Context, require_column
from dragoman.openai_client import ModelServerSettings, check_key
from dragoman.outbound import (
    check_headers,
    check_secret_headers,
    check_secret_query,
    check_url,
    places,
)

OUTPUT_PLACE = "output"
"""The place of a rubric that receives the output."""


class JudgeSettings(ModelServerSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A judge on an OpenAI-compatible server. Without `baseline` it scores, with it it compares."""

    rubric: str
    """What makes an output good; ``{{column}}`` is filled from the turn."""
    output: str | None = None
    """The column of the output; the main one when it is left out."""
    input: str | None = None
    """The dataset's column that the target was given, shown to the judge."""
    reference: str | None = None
    """The dataset's column with a good answer, shown to the judge."""
    baseline: str | None = None
    """The dataset's column with another output: the judge says which of the two is better."""
    lowest: float = 1.0
    highest: float = 5.0
    """The scale of the judge's scores. They are kept as they are given."""
    pass_from: float | None = None
    """The score from which an output passes; without it there is no label."""
    votes: Annotated[int, msgspec.Meta(ge=1, le=25)] = 1
    """How often the judge is asked; the score is the mean."""
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """0 for one vote and 1 for several when it is left out."""
    max_tokens: Annotated[int, msgspec.Meta(ge=16)] = 1000
    seed: int | None = None
    """The seed of the first vote; each further one has the next."""
    cache: bool = True
    """Do not ask again what the same judge was asked before."""
    extra: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    """More fields of the request, such as top_p."""

    @property
    def heat(self) -> float:
        """The temperature that is asked for: votes of temperature 0 would all be the same."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.votes == 1 else 1.0


def score_range(settings: JudgeSettings) -> tuple[float, float]:
    """The scale of the scores; a judge that compares gives a share of wins."""
    return (settings.lowest, settings.highest) if settings.baseline is None else (0.0, 1.0)


def unpriced(settings: JudgeSettings) -> str | None:
    """Why the cost of a judgement cannot be known."""
    return settings.unpriced("evaluator")


_NOT_DECIDING = frozenset({"api_key", "api_key_env", "price", "timeout_seconds", "cache"})
_OWN_FIELDS = frozenset({"model", "messages", "stream", "n", "max_tokens", "temperature", "seed"})


def check(settings: JudgeSettings, columns: Collection[str], context: Context) -> None:
    """Refuse what cannot work or is not allowed."""
    check_url(settings.url, "evaluator.url", context.address_rules)
    check_secret_query(settings.url, "evaluator.url", context.sendable_keys)
    check_headers(settings.headers, "evaluator.headers")
    check_secret_headers(settings.headers, "evaluator.headers", settings.url, context.sendable_keys)
    check_key(settings, "evaluator", context.sendable_keys)
    if not settings.rubric.strip():
        raise _unusable("evaluator.rubric", "it is empty; say what makes an output good")
    if not settings.lowest < settings.highest:
        raise _unusable("evaluator.highest", "it must be above `lowest`")
    if settings.pass_from is not None and settings.baseline is not None:
        raise _unusable("evaluator.pass_from", "a judge that compares gives win, tie and loss")
    if settings.pass_from is not None and not (
        settings.lowest <= settings.pass_from <= settings.highest
    ):
        raise _unusable("evaluator.pass_from", "it must be from `lowest` to `highest`")
    for name in sorted(_OWN_FIELDS.intersection(settings.extra)):
        raise _unusable(f"evaluator.extra.{name}", "it has a setting of its own, or is not allowed")
    for name in ("input", "reference", "baseline"):
        column = getattr(settings, name)
        if column is not None:
            require_column(column, columns, f"evaluator.{name}")
    for column in places(settings.rubric):
        if column != OUTPUT_PLACE:
            require_column(column, columns, "evaluator.rubric")


def parts(settings: JudgeSettings, context: Context) -> Mapping[str, JsonValue]:
    """What a judge's scores depend on: its model, its settings, and the words it is asked in."""
    deciding = {
        name: value
        for name, value in msgspec.to_builtins(settings).items()
        if name not in _NOT_DECIDING
    }
    deciding["temperature"] = settings.heat
    deciding["headers"] = sorted(settings.headers)  # their values may be secrets
    return {"settings": deciding, "prompt": prompt_hash()}


def _unusable(where: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {reason}.", details={"field": where})
