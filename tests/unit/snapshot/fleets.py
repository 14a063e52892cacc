"""Fleets for tests of the snapshot: any node hypothesis can think of, and a naive reading."""

from __future__ import annotations

from hypothesis import strategies as st

from dragoman.ids import NodeId
from dragoman.live.protocol import (
    Capability,
    Device,
    ExclusionReason,
    Languages,
    Pipeline,
    PoolKind,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.live.snapshot import JobRequirement, NodeFacts, Pair, PoolRule

LANGUAGES = ("de", "en", "zh")
FEATURES = ("emotion_detection", "speaker_identification", "voice_cloning")
RULES = (PoolRule.ASR_TTS, PoolRule.SEMANTIC_F2F, PoolRule.SEMANTIC_ONE_WAY)

language = st.sampled_from(LANGUAGES)
languages = st.lists(language, unique=True).map(tuple)
STAGES = tuple(kind.value for kind in ServiceType)
VERSIONS = (None, "1", "2")
pairs = st.lists(st.tuples(language, language), min_size=1, max_size=2, unique=True).map(tuple)
features = st.lists(st.sampled_from(FEATURES), unique=True, max_size=2).map(tuple)
pipelines = st.builds(
    Pipeline, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans()
)
rules = st.sampled_from(RULES)
asked_services = st.dictionaries(
    st.sampled_from(STAGES),
    st.sampled_from(("s0", "s1", "s0@1", "s1@2", "s2@1", "elsewhere")),
    max_size=2,
).map(lambda chosen: tuple(sorted(chosen.items())))
requirements = st.builds(JobRequirement, rules, pairs, pipelines, features)


@st.composite
def services(draw: st.DrawFn) -> tuple[Service, ...]:
    kinds = draw(st.lists(st.sampled_from(ServiceType), max_size=6))
    return tuple(
        Service(
            # Two versions of one service may run side by side.
            f"s{number // 2}",
            kind,
            Device.CPU,
            draw(st.sampled_from(ServiceStatus)),
            draw(st.sampled_from(VERSIONS)),
        )
        for number, kind in enumerate(kinds)
    )


@st.composite
def nodes(draw: st.DrawFn, index: int, cell: int = 0) -> NodeFacts:
    offered = draw(services())
    unready = draw(st.lists(st.sampled_from(ServiceType), unique=True, max_size=1))
    return NodeFacts(
        node_id=NodeId(f"n{cell}-{index}"),
        cell=cell,
        index=index,
        languages=Languages(*(draw(languages) for _ in range(4))),
        services=offered,
        capabilities=tuple(Capability(kind, False) for kind in unready),
        features=frozenset(draw(features)),
        ready=draw(st.booleans()),
        public=draw(st.integers(0, 3)) > 0,
        over_threshold=draw(st.integers(0, 3)) == 0,
        marked=frozenset(
            f"{service.service_id}@{service.version}"
            if service.version and draw(st.booleans())
            else service.service_id
            for service in offered
            if draw(st.integers(0, 4)) == 0
        ),
    )


# --- the naive reading: one node, one question, no masks ------------------------------------------


def in_pool(rule: PoolRule, kind: PoolKind, known: Languages, pair: Pair) -> bool:
    source, target = pair
    recognises = source in known.asr_langs
    speaks = target in known.tts_langs
    reads = source in known.nmt_langs
    writes = target in known.nmt_langs
    if source == target:
        # Nothing is translated: the speech ends alone count, and for text alone that it is known.
        reads = writes = kind is not PoolKind.TEXT_TO_TEXT or reads
    match kind:
        case PoolKind.SPEECH_TO_TEXT:
            return recognises and writes
        case PoolKind.TEXT_TO_SPEECH:
            return reads and speaks
        case PoolKind.TEXT_TO_TEXT:
            return reads and writes
    match rule:
        case PoolRule.ASR_TTS:
            return recognises and speaks
        case PoolRule.SEMANTIC_F2F:
            both = source in known.semantic_langs and target in known.semantic_langs
            return both and source != target
        case PoolRule.SEMANTIC_ONE_WAY:
            into = target in known.nmt_langs and speaks
            return source in known.semantic_langs and into and source != target


def kind_wanted(pipeline: Pipeline) -> PoolKind:
    brings = "speech" if pipeline.use_asr else "text"
    wants = "speech" if pipeline.use_tts else "text"
    return PoolKind(f"{brings}_to_{wants}")


def knows_stages(facts: NodeFacts, pipeline: Pipeline, pair: Pair) -> bool:
    source, target = pair
    known = facts.languages
    return (
        (not pipeline.use_asr or source in known.asr_langs)
        and (not pipeline.use_semantic or source in known.semantic_langs)
        and (not pipeline.use_nmt or {source, target} <= set(known.nmt_langs))
        and (not pipeline.use_tts or target in known.tts_langs)
    )


def first_reason(
    facts: NodeFacts, requirement: JobRequirement, pipeline: Pipeline
) -> ExclusionReason | None:
    """Why the node may not carry the job: the first of the protocol's reasons that holds."""

    unready = {capability.type for capability in facts.capabilities if not capability.ready}

    def is_marked(service: Service) -> bool:
        whole = f"{service.service_id}@{service.version}"
        return service.service_id in facts.marked or whole in facts.marked

    def met(kind: str, name: str | None, *, running: bool = True, marks: bool = False) -> bool:
        return any(
            service.type.value == kind
            and (name in (None, service.service_id, f"{service.service_id}@{service.version}"))
            and not (running and service.status is not ServiceStatus.RUNNING)
            and not (running and service.type in unready)
            and not (marks and is_marked(service))
            for service in facts.services
        )

    wanted: list[tuple[str, str | None]] = [(kind.value, None) for kind in requirement.types]
    wanted += requirement.services
    holds = {
        ExclusionReason.NOT_READY: not facts.ready,
        ExclusionReason.NOT_PUBLIC: not facts.public,
        ExclusionReason.PAIR_UNSUPPORTED: not all(
            in_pool(requirement.rule, kind_wanted(pipeline), facts.languages, pair)
            and knows_stages(facts, pipeline, pair)
            for pair in requirement.pairs
        ),
        ExclusionReason.SERVICE_MISSING: not all(met(*one, running=False) for one in wanted),
        ExclusionReason.SERVICE_NOT_READY: not all(met(*one) for one in wanted),
        ExclusionReason.FEATURE_UNSUPPORTED: not set(requirement.features) <= facts.features,
        ExclusionReason.MODEL_UNAVAILABLE: not all(met(*one, marks=True) for one in wanted),
        ExclusionReason.RESOURCE_THRESHOLD: facts.over_threshold,
    }
    return next((reason for reason in ExclusionReason if holds.get(reason)), None)
