"""How many of the terms that an output must have it has."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators.evaluator import ComputesAtOnce, Score, judged
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.evaluators.values import as_text, output_of, reference_of, shown
from dragoman.lab.model import Turn
from dragoman.lab.plugins import Context, require_column
from dragoman.lab.targets import Output
from dragoman.term_matching import occurs

MAX_TERMS = 10_000


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A term, and how it must be translated; left out: it must stay as it is."""

    term: str
    translation: str | None = None


class TermsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which terms must be kept, and where they come from."""

    reference: str
    """The dataset's column in which terms are looked for: what was said, or its transcript."""
    glossary: list[Term]
    """The terms, as `GET /api/v1/glossary` lists them."""
    output: str | None = None
    """The column of the output; the main one when it is left out."""
    threshold: float | None = None
    """Label a turn `pass` when its score reaches this."""


def check(settings: TermsSettings, columns: Collection[str], context: Context) -> None:
    if not 1 <= len(settings.glossary) <= MAX_TERMS:
        raise _bad(f"has {len(settings.glossary):,} terms; give 1 to {MAX_TERMS:,}")
    if not all(one.term.strip() and one.translation != "" for one in settings.glossary):
        raise _bad("has a term or a translation that is empty; leave it out")
    require_column(settings.reference, columns, "evaluator.reference")


def _bad(says: str) -> InvalidMessage:
    return InvalidMessage(f"`evaluator.glossary` {says}.", details={"field": "evaluator.glossary"})


def of_corpus(settings: TermsSettings, sums: Sequence[float]) -> float | None:
    """All terms that were kept, over all that were to be."""
    kept, wanted = sums
    return kept / wanted if wanted else None


class TermsEvaluator(ComputesAtOnce):
    """The share of the reference's terms whose translation is in the output.

    A turn whose reference has no term of the glossary has no score.
    """

    cpu_bound = False

    def __init__(
        self, name: str, settings: TermsSettings, context: Context, processes: FunctionProcessPool
    ) -> None:
        self.name = name
        self._settings = settings

    async def score(self, turn: Turn, output: Output) -> Score:
        settings = self._settings
        said = as_text(reference_of(turn, settings.reference))
        found = as_text(output_of(output, settings.output))
        wanted = [one for one in settings.glossary if occurs(one.term, said)]
        if not wanted:
            return Score(None, None, "The reference has no term of the glossary.", (0.0, 0.0))
        missing = [must for one in wanted if not occurs(must := one.translation or one.term, found)]
        kept = len(wanted) - len(missing)
        score = kept / len(wanted)
        return Score(
            score,
            judged(score, settings.threshold, higher_is_better=True),
            f"{', '.join(map(shown, missing))} is not in the output" if missing else None,
            statistics=(float(kept), float(len(wanted))),
        )

    async def close(self) -> None:
        pass
