"""Targets and evaluators as Python programs write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.model import EvaluatorSpec, TargetSpec
from dragoman.lab.scoring import Smoothing, Tokenizer, UnicodeForm, Unit

Function = Callable[..., Any]


class Evaluator(msgspec.Struct, frozen=True):
    """An evaluator, and the function it calls if it is one of the program's own."""

    spec: EvaluatorSpec
    function: Function | None = None


def exact(
    *,
    reference: str,
    output: str | None = None,
    ignore_case: bool = False,
    ignore_space: bool = False,
    name: str = "exact",
    weight: float = 1.0,
) -> Evaluator:
    """Scores whether the output equals the column `reference`."""
    how = {"ignore_case": ignore_case, "ignore_space": ignore_space}
    return _of_kind("exact", name, weight, reference=reference, output=output, **how)


def contains(
    *,
    reference: str,
    output: str | None = None,
    ignore_case: bool = False,
    name: str = "contains",
    weight: float = 1.0,
) -> Evaluator:
    """Scores whether the output contains the column `reference`."""
    settings = {"reference": reference, "output": output, "ignore_case": ignore_case}
    return _of_kind("contains", name, weight, **settings)


def regex(
    pattern: str | None = None,
    *,
    reference: str | None = None,
    output: str | None = None,
    whole: bool = False,
    ignore_case: bool = False,
    multiline: bool = False,
    timeout_seconds: float = 1.0,
    name: str = "regex",
    weight: float = 1.0,
) -> Evaluator:
    """Scores whether a pattern, given here or in the column `reference`, is found in the output."""
    return _of_kind(
        "regex",
        name,
        weight,
        pattern=pattern,
        reference=reference,
        output=output,
        whole=whole,
        ignore_case=ignore_case,
        multiline=multiline,
        timeout_seconds=timeout_seconds,
    )


def json_match(
    *,
    reference: str,
    output: str | None = None,
    ignore_case: bool = False,
    allow_extra: bool = False,
    ignore_order: bool = False,
    partial: bool = False,
    name: str = "json_match",
    weight: float = 1.0,
) -> Evaluator:
    """Scores whether the output is the JSON value of the column `reference`."""
    return _of_kind(
        "json_match",
        name,
        weight,
        reference=reference,
        output=output,
        ignore_case=ignore_case,
        allow_extra=allow_extra,
        ignore_order=ignore_order,
        partial=partial,
    )


def numeric(
    *,
    reference: str,
    output: str | None = None,
    absolute: float = 0.0,
    relative: float = 0.0,
    find: Literal["only", "first", "last"] = "only",
    name: str = "numeric",
    weight: float = 1.0,
) -> Evaluator:
    """Scores whether the output is the number of the column `reference`, or close enough to it."""
    return _of_kind(
        "numeric",
        name,
        weight,
        reference=reference,
        output=output,
        absolute=absolute,
        relative=relative,
        find=find,
    )


def wer(
    *,
    reference: str,
    output: str | None = None,
    language: str | None = None,
    unit: Unit | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    unicode_form: UnicodeForm | None = None,
    threshold: float | None = None,
    name: str = "wer",
    weight: float = 1.0,
) -> Evaluator:
    """The word error rate against the column `reference`: 0 is best. It is jiwer's."""
    return _of_kind(
        "wer",
        name,
        weight,
        reference=reference,
        output=output,
        language=language,
        unit=unit,
        ignore_case=ignore_case,
        ignore_punctuation=ignore_punctuation,
        unicode_form=unicode_form,
        threshold=threshold,
    )


def cer(
    *,
    reference: str,
    output: str | None = None,
    language: str | None = None,
    ignore_space: bool | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    unicode_form: UnicodeForm | None = None,
    threshold: float | None = None,
    name: str = "cer",
    weight: float = 1.0,
) -> Evaluator:
    """The character error rate against the column `reference`: 0 is best. It is jiwer's."""
    return _of_kind(
        "cer",
        name,
        weight,
        reference=reference,
        output=output,
        language=language,
        ignore_space=ignore_space,
        ignore_case=ignore_case,
        ignore_punctuation=ignore_punctuation,
        unicode_form=unicode_form,
        threshold=threshold,
    )


def bleu(
    *,
    reference: str,
    output: str | None = None,
    language: str | None = None,
    tokenizer: Tokenizer | None = None,
    smooth: Smoothing = "exp",
    smooth_value: float | None = None,
    max_order: int = 4,
    ignore_case: bool = False,
    unicode_form: UnicodeForm | None = None,
    threshold: float | None = None,
    name: str = "bleu",
    weight: float = 1.0,
) -> Evaluator:
    """BLEU against the column `reference`, 0 to 100. It is sacrebleu's."""
    return _of_kind(
        "bleu",
        name,
        weight,
        reference=reference,
        output=output,
        language=language,
        tokenizer=tokenizer,
        smooth=smooth,
        smooth_value=smooth_value,
        max_order=max_order,
        ignore_case=ignore_case,
        unicode_form=unicode_form,
        threshold=threshold,
    )


def chrf(
    *,
    reference: str,
    output: str | None = None,
    language: str | None = None,
    char_order: int = 6,
    word_order: int = 0,
    beta: int = 2,
    whitespace: bool = False,
    ignore_case: bool = False,
    unicode_form: UnicodeForm | None = None,
    threshold: float | None = None,
    name: str = "chrf",
    weight: float = 1.0,
) -> Evaluator:
    """chrF against the column `reference`, 0 to 100. It is sacrebleu's; 2 words give chrF++."""
    return _of_kind(
        "chrf",
        name,
        weight,
        reference=reference,
        output=output,
        language=language,
        char_order=char_order,
        word_order=word_order,
        beta=beta,
        whitespace=whitespace,
        ignore_case=ignore_case,
        unicode_form=unicode_form,
        threshold=threshold,
    )


def ter(
    *,
    reference: str,
    output: str | None = None,
    language: str | None = None,
    tokenizer: Tokenizer | None = None,
    normalized: bool = False,
    asian_support: bool = False,
    ignore_case: bool = True,
    ignore_punctuation: bool = False,
    unicode_form: UnicodeForm | None = None,
    threshold: float | None = None,
    name: str = "ter",
    weight: float = 1.0,
) -> Evaluator:
    """The translation edit rate against the column `reference`: 0 is best. It is sacrebleu's."""
    return _of_kind(
        "ter",
        name,
        weight,
        reference=reference,
        output=output,
        language=language,
        tokenizer=tokenizer,
        normalized=normalized,
        asian_support=asian_support,
        ignore_case=ignore_case,
        ignore_punctuation=ignore_punctuation,
        unicode_form=unicode_form,
        threshold=threshold,
    )


def latency(
    *,
    max_ms: float | None = None,
    output: str | None = None,
    name: str = "latency",
    weight: float = 1.0,
) -> Evaluator:
    """The milliseconds that the target took; `pass` when they are no more than `max_ms`.

    `output` names an output column with other milliseconds, such as the fleet's `queued_ms`.
    """
    return _of_kind("latency", name, weight, max_ms=max_ms, output=output)


def length_ratio(
    *,
    reference: str,
    output: str | None = None,
    language: str | None = None,
    unit: Unit | None = None,
    min_ratio: float | None = None,
    max_ratio: float | None = None,
    name: str = "length_ratio",
    weight: float = 1.0,
) -> Evaluator:
    """The length of the output over that of the column `reference`."""
    return _of_kind(
        "length_ratio",
        name,
        weight,
        reference=reference,
        output=output,
        language=language,
        unit=unit,
        min_ratio=min_ratio,
        max_ratio=max_ratio,
    )


def terms(
    *,
    reference: str,
    glossary: Sequence[Mapping[str, str | None]],
    output: str | None = None,
    threshold: float | None = None,
    name: str = "terms",
    weight: float = 1.0,
) -> Evaluator:
    """The share of the terms in the column `reference` whose translation is in the output."""
    return _of_kind(
        "terms",
        name,
        weight,
        reference=reference,
        glossary=[dict(one) for one in glossary],
        output=output,
        threshold=threshold,
    )


def composite(
    *,
    weights: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    threshold: float | None = None,
    name: str = "composite",
) -> Evaluator:
    """The weighted mean of the other evaluators' scores; `scales` bring them to 0 to 1."""
    return _of_kind(
        "composite",
        name,
        1.0,
        weights=None if weights is None else dict(weights),
        scales={} if scales is None else {key: list(scale) for key, scale in scales.items()},
        threshold=threshold,
    )


def evaluator(
    kind: str, *, name: str | None = None, weight: float = 1.0, **settings: Any
) -> Evaluator:
    """An evaluator of any kind, such as one that an installed package adds."""
    return _of_kind(kind, name or kind, weight, **settings)


def python(
    function: Function | str,
    *,
    cpu_bound: bool = False,
    higher_is_better: bool = True,
    name: str | None = None,
    weight: float = 1.0,
) -> Evaluator:
    """A function that gives a score: its arguments are columns, `output`, or both.

    It returns a number, True or False, or a mapping with score, label and reason. With `cpu_bound`
    it runs in a process of its own. Where less is better, say `higher_is_better=False`.
    """
    settings = {"cpu_bound": cpu_bound, "higher_is_better": None if higher_is_better else False}
    if isinstance(function, str):
        return _of_kind("python", name or "python", weight, function=function, **settings)
    called = name or _name_of(function)
    made = _of_kind("python", called, weight, function=called, **settings)
    return msgspec.structs.replace(made, function=function)


def llm_judge(
    *,
    url: str,
    model: str,
    rubric: str,
    name: str = "llm_judge",
    weight: float = 1.0,
    **settings: Any,
) -> Evaluator:
    """A language model that scores the output by a rubric, or compares it with `baseline`.

    See the settings of the `llm_judge` evaluator.
    """
    return _of_kind("llm_judge", name, weight, url=url, model=model, rubric=rubric, **settings)


def code(snippet: str, *, name: str = "code", weight: float = 1.0, **settings: Any) -> Evaluator:
    """A snippet of Python that scores the output in a process that can reach nothing.

    It is an expression, or it defines `score(...)`, whose arguments are columns, `output`, or both.
    """
    return _of_kind("code", name, weight, code=snippet, **settings)


def openai(url: str, *, model: str, **settings: Any) -> TargetSpec:
    """A model on an OpenAI-compatible server; see the settings of the `openai` target."""
    return TargetSpec("openai", {"url": url, "model": model, **settings})


def http(url: str, *, output: str, **settings: Any) -> TargetSpec:
    """A model behind HTTP; see the settings of the `http` target."""
    return TargetSpec("http", {"url": url, "output": output, **settings})


def fleet(
    *,
    url: str | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    input: str | None = None,  # noqa: A002 - named as the setting is
    **settings: Any,
) -> TargetSpec:
    """The live fleet of a server, on the capacity that live traffic leaves free.

    Without `url` it is the server that runs on the data folder. Languages that are not given are
    in the columns `src_lang` and `tgt_lang`, the text or the recording is in the column `source`
    unless `input` names another. See the settings of the `fleet` target.
    """
    named = {"url": url, "src_lang": src_lang, "tgt_lang": tgt_lang, "input": input}
    given = {name: value for name, value in named.items() if value is not None}
    return TargetSpec("fleet", {**given, **settings})


def recorded(*, output: str) -> TargetSpec:
    """Outputs that the dataset already has, in this column."""
    return TargetSpec("recorded", {"output": output})


def target_of(given: Function | str | TargetSpec) -> tuple[TargetSpec, Mapping[str, Function]]:
    """The target that was given, and the functions it needs."""
    if isinstance(given, TargetSpec):
        return given, {}
    if given == "fleet":
        return fleet(), {}
    if isinstance(given, str):
        return TargetSpec("python", {"function": given}), {}
    name = f"target {_name_of(given)}"
    return TargetSpec("python", {"function": name}), {name: given}


def evaluator_of(given: Evaluator | Function) -> Evaluator:
    """The evaluator that was given; a plain function is one too."""
    return given if isinstance(given, Evaluator) else python(given)


def evaluators_of(given: object) -> list[Evaluator]:
    """The evaluators that were given; one alone needs no list."""
    if isinstance(given, Evaluator) or callable(given):
        return [evaluator_of(given)]
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        raise InvalidMessage(
            f"`evaluators` is {type(given).__name__} {given!r}; give a list of evaluators and "
            'functions, as in evaluators=[lab.exact(reference="answer")]'
        )
    return [evaluator_of(one) for one in given]


def _of_kind(kind: str, name: str, weight: float, **settings: Any) -> Evaluator:
    kept = {key: value for key, value in settings.items() if value is not None}
    return Evaluator(EvaluatorSpec(kind, name, weight, kept))


def _name_of(function: Function) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
