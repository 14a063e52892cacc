"""What a job asks of a node, in a form that masks answer quickly."""

from __future__ import annotations

from dragoman.live.protocol import (
    NamedServices,
    Pipeline,
    ServiceType,
    normal_language,
    required_types,
)
from dragoman.live.snapshot.pools import (
    Pair,
    PipelineStage,
    PoolRule,
    Spoken,
    kind_of,
    pool_languages,
)


def stage_languages(pipeline: Pipeline, pair: Pair) -> tuple[Spoken, ...]:
    """What the stages a job uses must know themselves, besides the pool."""
    source, target = pair
    found: list[Spoken] = []
    if pipeline.use_asr:
        found.append((PipelineStage.ASR, source))
    if pipeline.use_semantic:
        found.append((PipelineStage.SEMANTIC, source))
    if pipeline.use_nmt:
        found += [(PipelineStage.NMT, source), (PipelineStage.NMT, target)]
    if pipeline.use_tts:
        found.append((PipelineStage.TTS, target))
    return tuple(found)


class JobRequirement:
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
        "services",
        "shown",
        "spoken",
        "types",
        "without",
        "written",
    )

    def __init__(
        self,
        rule: PoolRule,
        pairs: tuple[tuple[str, str], ...],
        pipeline: Pipeline,
        features: tuple[str, ...],
        services: NamedServices = (),
        without: NamedServices = (),
    ) -> None:
        self.rule = rule
        self.pipeline = pipeline
        self.kind = kind_of(speech_in=bool(pipeline.use_asr), speech_out=bool(pipeline.use_tts))
        self.pairs: tuple[Pair, ...] = tuple(
            (normal_language(source), normal_language(target)) for source, target in pairs
        )
        self.pair = self.pairs[0]
        """The pair the job is filed under."""
        self.written = pairs
        """The pairs, as the client wrote them."""
        self.shown = ":".join(pairs[0])
        """The pair the job is filed under, as the client wrote it."""
        self.features = features
        self.services = services
        """The services that a node must run, by stage and name."""
        self.without = without
        """The services that a node must not depend on: it needs another one for the stage."""
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
        self._known: dict[tuple[object, ...], JobRequirement] = {}

    def of(
        self,
        pairs: tuple[tuple[str, str], ...],
        pipeline: Pipeline,
        features: tuple[str, ...],
        services: NamedServices = (),
        without: NamedServices = (),
    ) -> JobRequirement:
        key = (pairs, pipeline, features, services, without)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self._LIMIT:
                self._known.clear()
            found = JobRequirement(self._rule, pairs, pipeline, features, services, without)
            self._known[key] = found
        return found
