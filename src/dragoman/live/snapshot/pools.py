"""Pools: which nodes serve a language pair, for jobs that bring and want speech or text.

A pool is never stored. A node is in it when it knows the languages that the pool asks for, and a
cell has one mask for each of those, so that a pool's members are an intersection of masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from dragoman.live.protocol import Languages, PoolKind, normal_language

Pair = tuple[str, str]
"""A source and a target, in the form in which tags are compared."""


class PoolRule(StrEnum):
    """Which nodes belong to a pair's speech-to-speech pool; the other kinds follow ASR_TTS."""

    ASR_TTS = "asr_tts"
    SEMANTIC_F2F = "semantic_f2f"
    SEMANTIC_ONE_WAY = "semantic_one_way"


class PipelineStage(StrEnum):
    """A step of the pipeline that knows languages of its own."""

    ASR = "asr"
    SEMANTIC = "semantic"
    NMT = "nmt"
    TTS = "tts"

    # The hash of an Enum is a Python function; masks are looked up by stage all the time.
    __hash__ = str.__hash__


Spoken = tuple[PipelineStage, str]
"""A stage and a language it must know, in the form in which tags are compared."""

_SPEECH_IN = (PoolKind.SPEECH_TO_SPEECH, PoolKind.SPEECH_TO_TEXT)
_SPEECH_OUT = (PoolKind.SPEECH_TO_SPEECH, PoolKind.TEXT_TO_SPEECH)


def kind_of(*, speech_in: bool, speech_out: bool) -> PoolKind:
    """The kind of pool for a job that recognises speech, or not, and speaks, or not."""
    if speech_in:
        return PoolKind.SPEECH_TO_SPEECH if speech_out else PoolKind.SPEECH_TO_TEXT
    return PoolKind.TEXT_TO_SPEECH if speech_out else PoolKind.TEXT_TO_TEXT


def pool_languages(rule: PoolRule, kind: PoolKind, pair: Pair) -> tuple[Spoken, ...] | None:
    """What a node must know to be in a pair's pool of a kind; None when there is no such pool."""
    source, target = pair
    if kind is PoolKind.SPEECH_TO_SPEECH and rule is not PoolRule.ASR_TTS:
        if source == target:
            return None
        if rule is PoolRule.SEMANTIC_F2F:
            return (PipelineStage.SEMANTIC, source), (PipelineStage.SEMANTIC, target)
        return (
            (PipelineStage.SEMANTIC, source),
            (PipelineStage.NMT, target),
            (PipelineStage.TTS, target),
        )
    ends: list[Spoken] = []
    if kind in _SPEECH_IN:
        ends.append((PipelineStage.ASR, source))
    if kind in _SPEECH_OUT:
        ends.append((PipelineStage.TTS, target))
    if source != target:
        # Text comes from the translation, or goes into it.
        if kind not in _SPEECH_IN:
            ends.append((PipelineStage.NMT, source))
        if kind not in _SPEECH_OUT:
            ends.append((PipelineStage.NMT, target))
    return tuple(ends) or ((PipelineStage.NMT, source),)


def spoken_languages(known: Languages) -> list[Spoken]:
    """Everything the stages of a node know, in the form in which tags are compared."""
    return [
        (stage, normal_language(tag)) for stage, tags in _by_stage(known).items() for tag in tags
    ]


def spelling(known: Languages, spoken: Spoken) -> str | None:
    """How a node writes a language that one of its stages knows."""
    stage, language = spoken
    return next((t for t in _by_stage(known)[stage] if normal_language(t) == language), None)


# --- one node's pools ----------------------------------------------------------------------------


def count_pools(rule: PoolRule, known: Languages) -> int:
    """How many pools a node is in, over all kinds; counted without listing them."""
    asr, semantic, nmt, tts = (_tags(tags) for tags in _by_stage(known).values())
    match rule:
        case PoolRule.ASR_TTS:
            speech = len(asr) * len(tts)
        case PoolRule.SEMANTIC_F2F:
            speech = len(semantic) * (len(semantic) - 1)
        case PoolRule.SEMANTIC_ONE_WAY:
            targets = nmt & tts
            speech = len(semantic) * len(targets) - len(semantic & targets)
    # Without translation a text end asks for nothing, so that a language need not be in nmt.
    speech_to_text = len(asr) * len(nmt) + len(asr - nmt)
    text_to_speech = len(nmt) * len(tts) + len(tts - nmt)
    return speech + speech_to_text + text_to_speech + len(nmt) ** 2


def is_in_a_pool(rule: PoolRule, known: Languages) -> bool:
    """Whether a node is in any pool at all; what it knows is not looked through."""
    if known.asr_langs or known.nmt_langs or known.tts_langs:
        return True  # At least that language's own pool of one kind.
    return rule is PoolRule.SEMANTIC_F2F and count_pools(rule, known) > 0


def node_pools(rule: PoolRule, known: Languages) -> Iterator[tuple[str, tuple[PoolKind, ...]]]:
    """The pairs a node serves, in its own spelling, and the kinds of pool it is in for each.

    They come one by one, in order: a reader that wants the first thousand pays for those.
    """
    spelled: dict[str, str] = {}
    for tags in _by_stage(known).values():
        for tag in tags:
            spelled.setdefault(normal_language(tag), tag)
    by_stage = [_tags(tags) for tags in _by_stage(known).values()]
    for source in sorted(spelled):
        targets = _targets(rule, by_stage, source)
        for target in sorted(set[str]().union(*targets.values())):
            kinds = tuple(kind for kind in PoolKind if target in targets[kind])
            yield f"{spelled[source]}:{spelled[target]}", kinds


def what_is_missing(known: Languages) -> str:
    """Why a node is in no pool at all, in words for its owner."""
    said = [f"{stage.value}_langs" for stage, tags in _by_stage(known).items() if tags]
    has = f"it lists only {' and '.join(said)}" if said else "it lists no languages"
    return (
        f"in no pool: {has}; a node serves text with nmt_langs, "
        "speech in with asr_langs, speech out with tts_langs"
    )


def _targets(rule: PoolRule, by_stage: Sequence[set[str]], source: str) -> dict[PoolKind, set[str]]:
    """What a node turns one language into, by kind."""
    asr, semantic, nmt, tts = by_stage
    itself = {source}
    match rule:
        case PoolRule.ASR_TTS:
            speech = tts if source in asr else set[str]()
        case PoolRule.SEMANTIC_F2F:
            speech = semantic - itself if source in semantic else set()
        case PoolRule.SEMANTIC_ONE_WAY:
            speech = (nmt & tts) - itself if source in semantic else set()
    return {
        PoolKind.SPEECH_TO_SPEECH: speech,
        PoolKind.SPEECH_TO_TEXT: nmt | itself if source in asr else set(),
        PoolKind.TEXT_TO_SPEECH: (tts if source in nmt else set()) | (tts & itself),
        PoolKind.TEXT_TO_TEXT: nmt if source in nmt else set(),
    }


def _by_stage(known: Languages) -> dict[PipelineStage, tuple[str, ...]]:
    return {
        PipelineStage.ASR: known.asr_langs,
        PipelineStage.SEMANTIC: known.semantic_langs,
        PipelineStage.NMT: known.nmt_langs,
        PipelineStage.TTS: known.tts_langs,
    }


def _tags(tags: tuple[str, ...]) -> set[str]:
    return {normal_language(tag) for tag in tags}
