"""What the stages of a pipeline and the features of a job need a node to run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dragoman.errors import InvalidMessage
from dragoman.live.protocol.languages import same_language
from dragoman.live.protocol.parts import Pipeline
from dragoman.live.protocol.problems import MessageProblem
from dragoman.live.protocol.vocabulary import Feature, ServiceType

STAGES: Mapping[str, ServiceType] = {
    "use_asr": ServiceType.ASR,
    "use_semantic": ServiceType.SEMANTIC,
    "use_nmt": ServiceType.NMT,
    "use_tts": ServiceType.TTS,
    "use_tone": ServiceType.TONE,
}
"""The service each stage of a pipeline runs on, in the order in which they run."""

NEEDS: Mapping[Feature, tuple[Feature | ServiceType, ...]] = {
    Feature.EMOTION_DETECTION: (ServiceType.ASR,),
    Feature.SPEECH_RATE_DETECTION: (ServiceType.ASR,),
    Feature.SPEECH_RATE_CONTROL: (Feature.SPEECH_RATE_DETECTION, ServiceType.TTS),
    Feature.SPEAKER_IDENTIFICATION: (),
    Feature.VOICE_CLONING: (Feature.SPEAKER_IDENTIFICATION, ServiceType.TONE),
    Feature.VOICE_STYLE_DETECTION: (Feature.VOICE_CLONING,),
    Feature.PERSONA_ADAPTATION: (ServiceType.ASR,),
}
"""What each feature needs: services, and other features with what those need in turn."""


def known_features(names: Iterable[str]) -> frozenset[Feature]:
    """The features of these names; a name that is none is refused."""
    known = set()
    for name in names:
        try:
            known.add(Feature(name))
        except ValueError:
            raise InvalidMessage(
                f"unknown feature `{name}` in `features`; known are {', '.join(Feature)}",
                details={"problem": MessageProblem.BAD_FIELD.value, "field": "features"},
            ) from None
    return frozenset(known)


def required_features(features: Iterable[str]) -> frozenset[Feature]:
    """The features asked for, and those that they need."""
    required: set[Feature] = set()
    pending = list(known_features(features))
    while pending:
        feature = pending.pop()
        if feature not in required:
            required.add(feature)
            pending.extend(need for need in NEEDS[feature] if isinstance(need, Feature))
    return frozenset(required)


def required_types(pipeline: Pipeline, features: Collection[str] = ()) -> frozenset[ServiceType]:
    """The services that a node must run to carry a job."""
    required = {service for stage, service in STAGES.items() if getattr(pipeline, stage)}
    for feature in required_features(features) if features else ():
        required.update(need for need in NEEDS[feature] if isinstance(need, ServiceType))
    return frozenset(required)


def chosen_pipeline(default: Pipeline, *chosen: Pipeline | None) -> Pipeline:
    """Every stage as the first of the pipelines decides that names it, else as by default."""
    stages = dict.fromkeys(STAGES, False)
    for pipeline in (default, *reversed(chosen)):
        for stage in STAGES if pipeline is not None else ():
            decided = getattr(pipeline, stage)
            if decided is not None:
                stages[stage] = decided
    return Pipeline(**stages)


def default_pipeline(audio: bool, src: str, tgt: str, semantic: bool) -> Pipeline:
    """The stages of a job whose client chooses none: speech for speech, text for text.

    ``semantic`` is true when the pool rule asks for semantic repair. Nothing is translated when
    the source is the target.
    """
    return Pipeline(
        use_asr=audio,
        use_semantic=semantic,
        use_nmt=not same_language(src, tgt),
        use_tts=audio,
        use_tone=False,
    )
