"""What a job asks of a node, in a form that masks answer quickly."""

from __future__ import annotations

from dragoman.live.protocol import Pipeline, ServiceType, normal_language, required_types
from dragoman.live.snapshot.pools import (
    Pair,
    PoolRule,
    Spoken,
    Stage,
    kind_of,
    pool_languages,
)


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

    __slots__ = (
        "features",
        "impossible",
        "kind",
        "languages",
        "name",
        "pair",
        "pairs",
        "pipeline",
        "pool",
        "rule",
        "shown",
        "spoken",
        "types",
    )

    def __init__(
        self,
        rule: PoolRule,
        pairs: tuple[tuple[str, str], ...],
        pipeline: Pipeline,
        features: tuple[str, ...],
    ) -> None:
        self.rule = rule
        self.pipeline = pipeline
        self.kind = kind_of(speech_in=bool(pipeline.use_asr), speech_out=bool(pipeline.use_tts))
        self.pairs: tuple[Pair, ...] = tuple(
            (normal_language(source), normal_language(target)) for source, target in pairs
        )
        self.pair = self.pairs[0]
        """The pair the job is filed under."""
        self.shown = ":".join(pairs[0])
        """The same, as the client wrote it."""
        self.features = features
        self.types: tuple[ServiceType, ...] = tuple(sorted(required_types(pipeline, features)))
        pool: dict[Spoken, None] = {}
        spoken: dict[Spoken, None] = {}
        self.impossible = False
        for pair in self.pairs:
            languages = pool_languages(rule, self.kind, pair)
            if languages is None:
                self.impossible = True
                languages = ()
            pool.update(dict.fromkeys(languages))
            spoken.update(dict.fromkeys(stage_languages(pipeline, pair)))
        self.pool = tuple(pool)
        self.spoken = tuple(language for language in spoken if language not in pool)
        self.languages = self.pool + self.spoken
        """Everything a node must know, for the pool and for the stages."""
        self.name = " ".join(sorted(f"{stage.value}:{tag}" for stage, tag in self.languages))
        """The same for every requirement that asks for the same languages."""


class Requirements:
    """Hands out the one requirement object for each demand."""

    _LIMIT = 10_000

    def __init__(self, rule: PoolRule) -> None:
        self._rule = rule
        self._known: dict[tuple[object, ...], Requirement] = {}

    def of(
        self,
        pairs: tuple[tuple[str, str], ...],
        pipeline: Pipeline,
        features: tuple[str, ...],
    ) -> Requirement:
        key = (pairs, pipeline, features)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self._LIMIT:
                self._known.clear()
            found = Requirement(self._rule, pairs, pipeline, features)
            self._known[key] = found
        return found
