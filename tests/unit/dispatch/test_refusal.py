"""Refusal is an answer: its code, its reasons, and when to ask again."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.ids import JobId, NodeId, RequestId, TenantId
from dragoman.live.dispatch.job import Job
from dragoman.live.dispatch.refusals import as_error, as_info, refusal, with_job
from dragoman.live.dispatch.selection import Decision, Search
from dragoman.live.ledger import JobInput, JobSpec, Outlook
from dragoman.live.protocol import (
    Device,
    Languages,
    NamedServices,
    Pipeline,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.live.snapshot import (
    CellView,
    JobRequirement,
    NodeFacts,
    PoolRule,
    RuntimeSnapshot,
)

SPOKEN = Languages(("zh",), (), ("zh", "en"), ("en",))
SERVICES = tuple(
    Service(kind.value, kind, Device.CPU, ServiceStatus.RUNNING)
    for kind in (ServiceType.ASR, ServiceType.NMT, ServiceType.TTS)
)

M2M = Service("m2m", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING, "1")


def node(index: int = 0, **facts: Any) -> NodeFacts:
    return NodeFacts(
        **{
            "node_id": NodeId(f"n{index}"),
            "cell": 0,
            "index": index,
            "languages": SPOKEN,
            "services": SERVICES,
            "ready": True,
            **facts,
        }
    )


def in_vain(
    *fleet: NodeFacts,
    features: tuple[str, ...] = (),
    excluded: frozenset[NodeId] = frozenset(),
    spread: NodeId | None = None,
    own: int = 0,
    services: NamedServices = (),
) -> Search:
    """A search that found no slot in this fleet."""
    pipeline = Pipeline(use_nmt=True, use_tts=True)
    requirement = JobRequirement(PoolRule.ASR_TTS, (("zh", "en"),), pipeline, features, services)
    spec = JobSpec(TenantId("t"), RequestId("r"), "zh", "en", pipeline, features=features)
    job = Job(spec, JobInput(), b"", requirement, None, 0.0, 0.0, False, "en")
    search = Search(job, RuntimeSnapshot.empty(PoolRule.ASR_TTS).replacing(CellView.of(0, fleet)))
    mask = (0, own) if own else None
    search.decisions = [Decision(1, requirement, excluded, spread, mask, [])]
    search.tried = [[]]
    search.vain()
    return search


CASES: dict[str, tuple[Search, str, dict[str, int]]] = {
    "nobody at all": (in_vain(), "PAIR_UNSUPPORTED", {}),
    "nobody in the pool": (
        in_vain(node(languages=Languages(("de",), (), ("de",), ("de",)))),
        "PAIR_UNSUPPORTED",
        {"pair_unsupported": 1},
    ),
    "an offline node keeps its pool alive": (
        in_vain(node(ready=False)),
        "NO_AVAILABLE_NODE",
        {"not_ready": 1},
    ),
    "a stage that does not know the language": (
        in_vain(node(languages=Languages(("zh",), (), ("zh",), ("en",)))),
        "PAIR_UNSUPPORTED",
        {"pair_unsupported": 1},
    ),
    "a feature nobody offers": (
        in_vain(node(), features=("speaker_identification",)),
        "UNSUPPORTED_FEATURE",
        {"feature_unsupported": 1},
    ),
    "a feature that only an unready node offers": (
        in_vain(
            node(ready=False, features=frozenset({"speaker_identification"})),
            features=("speaker_identification",),
        ),
        "NO_AVAILABLE_NODE",
        {"not_ready": 1},
    ),
    "only a slot is missing": (
        in_vain(node(), node(1, ready=False)),
        "NO_CAPACITY",
        {"not_ready": 1, "no_free_slot": 1},
    ),
    "only an unmarked service is missing": (
        in_vain(node(marked=frozenset({"nmt"})), node(1, ready=False)),
        "MODEL_NOT_AVAILABLE",
        {"not_ready": 1, "model_unavailable": 1},
    ),
    "a marked service on a busy machine": (
        in_vain(node(marked=frozenset({"nmt"}), over_threshold=True)),
        "NO_AVAILABLE_NODE",
        {"model_unavailable": 1},
    ),
    "a busy machine": (
        in_vain(node(over_threshold=True)),
        "NO_AVAILABLE_NODE",
        {"resource_threshold": 1},
    ),
    "the first try's reasons, the second's code": (
        in_vain(node(), node(1), node(2), excluded=frozenset({NodeId("n0")}), spread=NodeId("n1")),
        "NO_CAPACITY",
        {"excluded": 1, "spread": 1, "no_free_slot": 1},
    ),
    "a service that no node has": (
        in_vain(node(), services=(("nmt", "m2m@2"),)),
        "NO_AVAILABLE_NODE",
        {"service_missing": 1},
    ),
    "another version than asked for": (
        in_vain(node(services=(*SERVICES, M2M)), services=(("nmt", "m2m@2"),)),
        "NO_AVAILABLE_NODE",
        {"service_missing": 1},
    ),
    "a named service that has no slot": (
        in_vain(node(), node(1, services=(*SERVICES, M2M)), services=(("nmt", "m2m@1"),)),
        "NO_CAPACITY",
        {"service_missing": 1, "no_free_slot": 1},
    ),
    "a named service that is marked": (
        in_vain(
            node(services=(*SERVICES, M2M), marked=frozenset({"m2m@1"})),
            services=(("nmt", "m2m"),),
        ),
        "MODEL_NOT_AVAILABLE",
        {"model_unavailable": 1},
    ),
    "a named service for another stage": (
        in_vain(node(services=(*SERVICES, M2M)), services=(("tts", "m2m"),)),
        "NO_AVAILABLE_NODE",
        {"service_missing": 1},
    ),
    "a private node": (in_vain(node(public=False)), "NO_AVAILABLE_NODE", {"not_public": 1}),
    "one's own private node": (
        in_vain(node(public=False), own=1),
        "NO_CAPACITY",
        {"no_free_slot": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_has_the_code_and_reasons_that_hold(case: str) -> None:
    made, code, reasons = CASES[case]
    error = refusal(made, None)
    assert (error.code, error.details["reasons"]) == (code, reasons)


def test_a_refusal_names_the_services_that_no_node_has() -> None:
    error = refusal(in_vain(node(), services=(("nmt", "m2m@2"),)), None)
    assert "has nmt m2m@2" in error.message
    assert error.details["services"] == {"nmt": "m2m@2"}
    full = refusal(in_vain(node(services=(*SERVICES, M2M)), services=(("nmt", "m2m"),)), None)
    assert "full" in full.message
    assert "services" not in refusal(in_vain(node()), None).details


def test_cells_without_memory_make_a_pair_unavailable_and_not_unsupported() -> None:
    assert refusal(in_vain(), None, cold={3}).code == "NO_AVAILABLE_NODE"
    assert refusal(in_vain(node()), None, cold={0}).code == "NO_AVAILABLE_NODE"
    assert refusal(in_vain(node()), None, cold={3}).code == "NO_CAPACITY"


@pytest.mark.parametrize(
    ("first_free_ms", "retry_after_ms"),
    [(None, 1_000), (0, 50), (700, 700), (10**9, 30_000)],
)
def test_retry_after_is_when_a_slot_can_be_expected(
    first_free_ms: int | None, retry_after_ms: int
) -> None:
    error = refusal(in_vain(node()), Outlook(4, 4, first_free_ms))
    assert error.retry_after_ms == retry_after_ms


def test_what_time_does_not_mend_names_no_time() -> None:
    assert refusal(in_vain(), None).retry_after_ms is None
    assert refusal(in_vain(node(ready=False)), None).retry_after_ms == 2_000


def test_a_stored_refusal_is_told_again_as_it_was() -> None:
    error = with_job(refusal(in_vain(node()), Outlook(1, 1, 700)), JobId("j"))
    again = as_error(as_info(error))
    assert type(again) is type(error)
    assert (again.message, again.details) == (error.message, error.details)
    assert again.retry_after_ms == 700
    assert again.details["job_id"] == "j"
