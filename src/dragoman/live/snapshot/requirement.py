"""What a job asks of a node, in a form that masks answer quickly."""

from __future__ import annotations

from enum import StrEnum

from dragoman.live.protocol import Pipeline, ServiceType, required_types

Pair = tuple[str, str]


class PoolRule(StrEnum):
    """Which nodes belong to the pool of a language pair."""

    ASR_TTS = "asr_tts"
    SEMANTIC_F2F = "semantic_f2f"
    SEMANTIC_ONE_WAY = "semantic_one_way"
    TEXT = "text"
    """Not a setting: jobs with neither speech input nor speech output, under any rule."""


class Stage(StrEnum):
    """A step of the pipeline that knows languages of its own."""

    ASR = "asr"
    SEMANTIC = "semantic"
    NMT = "nmt"
    TTS = "tts"


Spoken = tuple[Stage, str]
"""A stage and a language it must know."""


def pool_languages(rule: PoolRule, pair: Pair) -> tuple[Spoken, ...] | None:
    """What a node must know to be in a pair's pool; None when the rule has no such pool."""
    source, target = pair
    match rule:
        case PoolRule.ASR_TTS:
            return (Stage.ASR, source), (Stage.TTS, target)
        case PoolRule.TEXT:
            return (Stage.NMT, source), (Stage.NMT, target)
        case PoolRule.SEMANTIC_F2F if source != target:
            return (Stage.SEMANTIC, source), (Stage.SEMANTIC, target)
        case PoolRule.SEMANTIC_ONE_WAY if source != target:
            return (Stage.SEMANTIC, source), (Stage.NMT, target), (Stage.TTS, target)
    return None


def stage_languages(pipeline: Pipeline, pair: Pair) -> tuple[Spoken, ...]:
    """What the stages a job uses must know themselves, besides the pool."""
    source, target = pair
    found: list[Spoken] = []
    if pipeline.use_asr:
        found.append((Stage.ASR, source))
    if pipeline.use_semantic:
        found.append((Stage.SEMANTIC, source))
    if pipeline.use_nmt:
        found += [(Stage.NMT, source), (Stage.NMT, target)]
    if pipeline.use_tts:
        found.append((Stage.TTS, target))
    return tuple(found)


class Requirement:
    """One distinct demand; equal demands are the same object, so masks can be remembered by it."""

    __slots__ = ("features", "impossible", "pair", "pairs", "pool", "rule", "spoken", "types")

    def __init__(
        self,
        rule: PoolRule,
        pairs: tuple[Pair, ...],
        pipeline: Pipeline,
        features: tuple[str, ...],
    ) -> None:
        self.rule = PoolRule.TEXT if not (pipeline.use_asr or pipeline.use_tts) else rule
        self.pairs = pairs
        self.pair = pairs[0]
        """The pair the job is filed under."""
        self.features = features
        self.types: tuple[ServiceType, ...] = tuple(sorted(required_types(pipeline, features)))
        pool: dict[Spoken, None] = {}
        spoken: dict[Spoken, None] = {}
        self.impossible = False
        for pair in pairs:
            languages = pool_languages(self.rule, pair)
            if languages is None:
                self.impossible = True
                languages = ()
            pool.update(dict.fromkeys(languages))
            spoken.update(dict.fromkeys(stage_languages(pipeline, pair)))
        self.pool = tuple(pool)
        self.spoken = tuple(language for language in spoken if language not in pool)


class Requirements:
    """Hands out the one requirement object for each demand."""

    _LIMIT = 10_000

    def __init__(self, rule: PoolRule) -> None:
        self._rule = rule
        self._known: dict[tuple[object, ...], Requirement] = {}

    def of(
        self, pairs: tuple[Pair, ...], pipeline: Pipeline, features: tuple[str, ...]
    ) -> Requirement:
        key = (pairs, pipeline, features)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self._LIMIT:
                self._known.clear()
            found = Requirement(self._rule, pairs, pipeline, features)
            self._known[key] = found
        return found
