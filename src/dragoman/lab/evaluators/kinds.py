"""The kinds of evaluator there are, and what can be done with all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.extras import require_extra
from dragoman.lab.evaluators import (
    code,
    composite,
    contains,
    exact,
    json_match,
    judge,
    latency,
    length_ratio,
    numeric,
    python,
    regex,
    terms,
    text,
    transcription,
    translation,
)
from dragoman.lab.evaluators.evaluator import OpenedEvaluator
from dragoman.lab.evaluators.fingerprints import Fingerprint, fingerprint_of, library_version
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.model import EvaluatorSpec, JsonValue, TargetSpec
from dragoman.lab.plugins import Context, PluginRegistry, settings_of

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


Range = tuple[float, float]


def _any(settings: Any) -> Range:
    return -math.inf, math.inf


def _share(settings: Any) -> Range:
    return 0.0, 1.0


def _per_cent(settings: Any) -> Range:
    return 0.0, 100.0


def _positive(settings: Any) -> Range:
    return 0.0, math.inf


def _no_libraries(settings: Any) -> tuple[str, ...]:
    return ()


def _free(settings: Any) -> str | None:
    return None


def _no_parts(settings: Any, context: Context) -> Mapping[str, JsonValue]:
    return {}


@dataclass(frozen=True, slots=True)
class EvaluatorKind(Generic[SettingsT]):
    """How evaluators of one kind are made. Entry points of `dragoman.evaluators` name one."""

    settings: type[SettingsT]
    """What may be set, as a struct; its JSON-schema is shown to users."""
    open: Callable[[str, SettingsT, Context, FunctionProcessPool], OpenedEvaluator]
    check: Callable[[SettingsT, Collection[str], Context], None]
    """Refuses settings that cannot work with these columns, before anything is stored."""
    corpus: Callable[[SettingsT, Sequence[float]], float | None] | None = None
    """The score of a whole corpus, from the sums of its turns' statistics."""
    higher_is_better: bool | None = True
    """Whether a higher score is the better one; None where neither end is good.

    Settings that have a field of this name state it for one evaluator."""
    libraries: Callable[[SettingsT], tuple[str, ...]] = _no_libraries
    """The distributions that compute the score, which the extra `lab` brings."""
    parts: Callable[[SettingsT, Context], Mapping[str, JsonValue]] = _no_parts
    """What else the score depends on, for the fingerprint: `settings` in the place of those that
    were written, a function's source, a prompt."""
    revision: int = 1
    """Changes with a change of this kind's own code that changes scores."""
    unpriced: Callable[[SettingsT], str | None] = _free
    """Why the cost of its calls cannot be known, and what to do; None where it can be."""
    score_range: Callable[[SettingsT], Range] = _any
    """The least and the most that a score can be: no interval reaches beyond them."""

    @property
    def has_corpus(self) -> bool:
        """Whether there is a corpus score."""
        return self.corpus is not None

    def schema(self) -> dict[str, Any]:
        """The JSON-schema of the settings."""
        return msgspec.json.schema(self.settings)


def _measured_parts(
    options: Callable[[Any], Mapping[str, Any]],
) -> Callable[[Any, Context], Mapping[str, JsonValue]]:
    """The settings as they take effect: what a language stands for, not its name."""

    def parts(settings: Any, context: Context) -> Mapping[str, JsonValue]:
        written = msgspec.structs.asdict(settings)
        return {
            "settings": {
                **{k: v for k, v in written.items() if k != "language"},
                **options(settings),
            }
        }

    return parts


EVALUATORS: PluginRegistry[EvaluatorKind[Any]] = PluginRegistry(
    "evaluator",
    "dragoman.evaluators",
    {
        "exact": EvaluatorKind(
            exact.ExactSettings, exact.ExactEvaluator, text.check, score_range=_share
        ),
        "contains": EvaluatorKind(
            contains.ContainsSettings, contains.ContainsEvaluator, text.check, score_range=_share
        ),
        "regex": EvaluatorKind(
            regex.RegexSettings, regex.RegexEvaluator, regex.check, score_range=_share
        ),
        "json_match": EvaluatorKind(
            json_match.JsonMatchSettings,
            json_match.JsonMatchEvaluator,
            json_match.check,
            score_range=_share,
        ),
        "numeric": EvaluatorKind(
            numeric.NumericSettings, numeric.NumericEvaluator, numeric.check, score_range=_share
        ),
        "wer": EvaluatorKind(
            transcription.WerSettings,
            transcription.wer,
            text.check,
            corpus=transcription.of_corpus,
            higher_is_better=False,
            score_range=_positive,
            libraries=transcription.libraries,
            parts=_measured_parts(transcription.wer_options),
        ),
        "cer": EvaluatorKind(
            transcription.CerSettings,
            transcription.cer,
            text.check,
            corpus=transcription.of_corpus,
            higher_is_better=False,
            score_range=_positive,
            libraries=transcription.libraries,
            parts=_measured_parts(transcription.cer_options),
        ),
        "bleu": EvaluatorKind(
            translation.BleuSettings,
            translation.bleu,
            translation.check_bleu,
            corpus=translation.bleu_of_corpus,
            score_range=_per_cent,
            libraries=translation.bleu_libraries,
            parts=_measured_parts(translation.bleu_options),
        ),
        "chrf": EvaluatorKind(
            translation.ChrfSettings,
            translation.chrf,
            translation.check_chrf,
            corpus=translation.chrf_of_corpus,
            score_range=_per_cent,
            libraries=translation.chrf_libraries,
            parts=_measured_parts(translation.chrf_options),
        ),
        "ter": EvaluatorKind(
            translation.TerSettings,
            translation.ter,
            text.check,
            corpus=translation.ter_of_corpus,
            higher_is_better=False,
            score_range=_positive,
            libraries=translation.ter_libraries,
            parts=_measured_parts(translation.ter_options),
        ),
        "latency": EvaluatorKind(
            latency.LatencySettings,
            latency.LatencyEvaluator,
            latency.check,
            higher_is_better=False,
            score_range=_positive,
        ),
        "length_ratio": EvaluatorKind(
            length_ratio.LengthRatioSettings,
            length_ratio.LengthRatioEvaluator,
            length_ratio.check,
            corpus=length_ratio.of_corpus,
            higher_is_better=None,
            score_range=_positive,
        ),
        "terms": EvaluatorKind(
            terms.TermsSettings,
            terms.TermsEvaluator,
            terms.check,
            corpus=terms.of_corpus,
            score_range=_share,
        ),
        "llm_judge": EvaluatorKind(
            judge.JudgeSettings,
            judge.JudgeEvaluator,
            judge.check,
            score_range=judge.score_range,
            parts=judge.parts,
            unpriced=judge.unpriced,
        ),
        "code": EvaluatorKind(code.CodeSettings, code.CodeEvaluator, code.check, parts=code.parts),
        "composite": EvaluatorKind(
            composite.CompositeSettings, composite.CompositeEvaluator, composite.check
        ),
        "python": EvaluatorKind(
            python.PythonEvaluatorSettings, python.PythonEvaluator, python.check, parts=python.parts
        ),
    },
)

_MODULES = {"mecab-python3": "MeCab"}
"""The modules of distributions that are not called like their module."""

_LANGUAGE_KEYS = ("tgt_lang", "language")
"""The settings by which targets name the language of their outputs."""


# --- before anything is stored --------------------------------------------------------------------


def resolved_evaluators(
    evaluators: Sequence[EvaluatorSpec], target: TargetSpec
) -> tuple[EvaluatorSpec, ...]:
    """The evaluators with what they take from the experiment around them.

    That is the language of the target, and of a composite the weights of the others. What an
    evaluator sets itself stays.
    """
    language = next((target.settings[k] for k in _LANGUAGE_KEYS if target.settings.get(k)), None)
    weights = {one.name: one.weight for one in evaluators if one.kind != composite.KIND}
    found = []
    for one in evaluators:
        fields = EVALUATORS.find(one.kind).settings.__struct_fields__
        if language is not None and "language" in fields:
            one = _with_default(one, "language", language)
        if one.kind == composite.KIND:
            one = _with_default(one, "weights", dict(weights))
        found.append(one)
    return tuple(found)


def check_evaluators(
    evaluators: Sequence[EvaluatorSpec], columns: Collection[str], context: Context
) -> None:
    """Refuse evaluators that cannot work on a dataset with these columns, and say why."""
    for one in evaluators:
        check_evaluator(one, columns, context)
    _check_weights(evaluators)


def check_evaluator(spec: EvaluatorSpec, columns: Collection[str], context: Context) -> None:
    """Refuse an evaluator that cannot work on a dataset with these columns, and say why."""
    kind = EVALUATORS.find(spec.kind)
    settings = settings_of(kind.settings, spec.settings, "evaluator")
    if libraries := kind.libraries(settings):
        modules = [_MODULES.get(name, name) for name in libraries]
        require_extra("lab", f"The evaluator `{spec.kind}`", modules)
    kind.check(settings, columns, context)


def _check_weights(evaluators: Sequence[EvaluatorSpec]) -> None:
    combining = [one for one in evaluators if one.kind == composite.KIND]
    others = {one.name for one in evaluators} - {one.name for one in combining}
    used: set[str] = set()
    for one in combining:
        named = set(
            settings_of(composite.CompositeSettings, one.settings, "evaluator").weights or {}
        )
        if unknown := sorted(named - others):
            raise InvalidMessage(
                f"{one.name!r} combines {unknown[0]!r}, which is no score of another evaluator "
                f"that is not a composite itself; there are {', '.join(sorted(others)) or 'none'}.",
                details={"field": "evaluator.weights"},
            )
        used |= named
    for one in evaluators:
        if not 0 < one.weight < math.inf:
            raise InvalidMessage(
                f"The weight of {one.name!r} is {one.weight:g}; it must be above 0.",
                details={"field": "evaluator.weight"},
            )
        if one.weight != 1 and one.name not in used:
            raise InvalidMessage(
                f"{one.name!r} has the weight {one.weight:g}, which only a composite evaluator "
                "uses, and none combines it; add one, or leave the weight out.",
                details={"field": "evaluator.weight"},
            )


def _with_default(spec: EvaluatorSpec, key: str, value: JsonValue) -> EvaluatorSpec:
    if spec.settings.get(key) is not None:
        return spec
    return msgspec.structs.replace(spec, settings={**spec.settings, key: value})


def unpriced_evaluator(spec: EvaluatorSpec) -> str | None:
    """Why the cost of an evaluator's calls cannot be known, and what to do; None where it can."""
    kind = EVALUATORS.find(spec.kind)
    return kind.unpriced(settings_of(kind.settings, spec.settings, "evaluator"))


# --- while a run lasts, and after it --------------------------------------------------------------


def open_evaluator(
    spec: EvaluatorSpec, context: Context, processes: FunctionProcessPool
) -> OpenedEvaluator:
    """The evaluator that a spec describes; the caller closes it.

    Evaluators that compute much use `processes`, which belong to the lab and stay open.
    """
    kind = EVALUATORS.find(spec.kind)
    settings = settings_of(kind.settings, spec.settings, "evaluator")
    return kind.open(spec.name, settings, context, processes)


def corpus_score(spec: EvaluatorSpec, sums: Sequence[float]) -> float | None:
    """The score of a whole corpus; None where the kind has none, or the corpus is empty.

    `sums` are the statistics of any set of turns, added up column by column. Where the library of
    the score is not installed, as on a machine that only shows results, there is none either.
    """
    score = corpus_function(spec)
    if score is None or len(sums) == 0:
        return None
    try:
        return score(sums)
    except ModuleNotFoundError:
        return None


def corpus_function(spec: EvaluatorSpec) -> Callable[[Sequence[float]], float | None] | None:
    """What gives the score of a corpus from such sums, for the many that a test asks for."""
    kind = EVALUATORS.find(spec.kind)
    if kind.corpus is None:
        return None
    return partial(kind.corpus, settings_of(kind.settings, spec.settings, "evaluator"))


def higher_is_better(spec: EvaluatorSpec) -> bool | None:
    """Whether a higher score is the better one; None where neither end is, or it is not known."""
    kind = EVALUATORS.get(spec.kind)
    if kind is None:
        return None
    stated = spec.settings.get("higher_is_better")
    return stated if isinstance(stated, bool) else kind.higher_is_better


def score_range(spec: EvaluatorSpec) -> Range:
    """The least and the most that a score can be; without end where that is not known."""
    kind = EVALUATORS.get(spec.kind)
    if kind is None:
        return _any(spec.settings)
    try:
        return kind.score_range(settings_of(kind.settings, spec.settings, "evaluator"))
    except InvalidMessage:  # of an evaluator that another version stored
        return _any(spec.settings)


def fingerprints(evaluators: Sequence[EvaluatorSpec], context: Context) -> dict[str, Fingerprint]:
    """What the score of each evaluator depends on, by the name of the score."""
    plain = {
        one.name: fingerprint_of(_parts(one, context))
        for one in evaluators
        if one.kind != composite.KIND
    }
    combined = {
        one.name: fingerprint_of({**_parts(one, context), "combines": _hashes(one, plain)})
        for one in evaluators
        if one.kind == composite.KIND
    }
    return {one.name: (plain | combined)[one.name] for one in evaluators}


def _parts(spec: EvaluatorSpec, context: Context) -> dict[str, JsonValue]:
    kind = EVALUATORS.find(spec.kind)
    settings = settings_of(kind.settings, spec.settings, "evaluator")
    parts: dict[str, JsonValue] = {
        "kind": spec.kind,
        "revision": kind.revision,
        "settings": msgspec.to_builtins(settings),
        "libraries": {name: library_version(name) for name in kind.libraries(settings)},
    }
    if (package := EVALUATORS.package_of(spec.kind)) is not None:
        parts["package"] = package
    return {**parts, **msgspec.to_builtins(dict(kind.parts(settings, context)))}


def _hashes(spec: EvaluatorSpec, others: Mapping[str, Fingerprint]) -> dict[str, JsonValue]:
    weights = settings_of(composite.CompositeSettings, spec.settings, "evaluator").weights or {}
    return {name: others[name].hash for name in weights if name in others}
