"""Refusal is an answer: its code, its reasons, and when to ask again."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.ids import JobId, NodeId, TenantId
from dragoman.live.dispatch.choice import NO_WISH, Decision, Wish, own_node
from dragoman.live.dispatch.refusal import as_error, as_info, refusal, with_job
from dragoman.live.ledger import Outlook
from dragoman.live.protocol import (
    Device,
    Languages,
    Pipeline,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.live.snapshot import (
    CellView,
    NodeFacts,
    PoolRule,
    Requirement,
    RuntimeSnapshot,
)

SPOKEN = Languages(("zh",), (), ("zh", "en"), ("en",))
SERVICES = tuple(
    Service(kind.value, kind, Device.CPU, ServiceStatus.RUNNING)
    for kind in (ServiceType.ASR, ServiceType.NMT, ServiceType.TTS)
)


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


def decision(
    *fleet: NodeFacts, features: tuple[str, ...] = (), wish: Wish = NO_WISH, own: int = 0
) -> Decision:
    requirement = Requirement(
        PoolRule.ASR_TTS, (("zh", "en"),), Pipeline(use_nmt=True, use_tts=True), features
    )
    snapshot = RuntimeSnapshot.empty(PoolRule.ASR_TTS).replacing(CellView.of(0, fleet))
    made = Decision(snapshot, requirement, wish, (0, own) if own else None)
    made.whole = True
    return made


CASES: dict[str, tuple[Decision, str, dict[str, int]]] = {
    "nobody at all": (decision(), "PAIR_UNSUPPORTED", {}),
    "nobody in the pool": (
        decision(node(languages=Languages(("de",), (), ("de",), ("de",)))),
        "PAIR_UNSUPPORTED",
        {"pair_unsupported": 1},
    ),
    "an offline node keeps its pool alive": (
        decision(node(ready=False)),
        "NO_AVAILABLE_NODE",
        {"not_ready": 1},
    ),
    "a stage that does not know the language": (
        decision(node(languages=Languages(("zh",), (), ("zh",), ("en",)))),
        "PAIR_UNSUPPORTED",
        {"pair_unsupported": 1},
    ),
    "a feature nobody offers": (
        decision(node(), features=("speaker_identification",)),
        "UNSUPPORTED_FEATURE",
        {"feature_unsupported": 1},
    ),
    "a feature that only an unready node offers": (
        decision(
            node(ready=False, features=frozenset({"speaker_identification"})),
            features=("speaker_identification",),
        ),
        "NO_AVAILABLE_NODE",
        {"not_ready": 1},
    ),
    "only a slot is missing": (
        decision(node(), node(1, ready=False)),
        "NO_CAPACITY",
        {"not_ready": 1, "no_free_slot": 1},
    ),
    "only an unmarked service is missing": (
        decision(node(marked=frozenset({"nmt"})), node(1, ready=False)),
        "MODEL_NOT_AVAILABLE",
        {"not_ready": 1, "model_unavailable": 1},
    ),
    "a marked service on a busy machine": (
        decision(node(marked=frozenset({"nmt"}), over_threshold=True)),
        "NO_AVAILABLE_NODE",
        {"model_unavailable": 1},
    ),
    "a busy machine": (
        decision(node(over_threshold=True)),
        "NO_AVAILABLE_NODE",
        {"resource_threshold": 1},
    ),
    "the first try's reasons, the second's code": (
        decision(node(), node(1), node(2), wish=Wish(frozenset({NodeId("n0")}), NodeId("n1"))),
        "NO_CAPACITY",
        {"excluded": 1, "spread": 1, "no_free_slot": 1},
    ),
    "a private node": (decision(node(public=False)), "NO_AVAILABLE_NODE", {"not_public": 1}),
    "one's own private node": (
        decision(node(public=False), own=1),
        "NO_CAPACITY",
        {"no_free_slot": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_has_the_code_and_reasons_that_hold(case: str) -> None:
    made, code, reasons = CASES[case]
    error = refusal(made, None)
    assert (error.code, error.details["reasons"]) == (code, reasons)


def test_cells_without_memory_make_a_pair_unavailable_and_not_unsupported() -> None:
    assert refusal(decision(), None, cold=frozenset({3})).code == "NO_AVAILABLE_NODE"
    assert refusal(decision(node()), None, cold=frozenset({0})).code == "NO_AVAILABLE_NODE"
    assert refusal(decision(node()), None, cold=frozenset({3})).code == "NO_CAPACITY"


@pytest.mark.parametrize(
    ("first_free_ms", "retry_after_ms"),
    [(None, 1_000), (0, 50), (700, 700), (10**9, 30_000)],
)
def test_retry_after_is_when_a_slot_can_be_expected(
    first_free_ms: int | None, retry_after_ms: int
) -> None:
    error = refusal(decision(node()), Outlook(4, 4, first_free_ms))
    assert error.retry_after_ms == retry_after_ms


def test_what_time_does_not_mend_names_no_time() -> None:
    assert refusal(decision(), None).retry_after_ms is None
    assert refusal(decision(node(ready=False)), None).retry_after_ms == 2_000


def test_a_stored_refusal_is_told_again_as_it_was() -> None:
    error = with_job(refusal(decision(node()), Outlook(1, 1, 700)), JobId("j"))
    again = as_error(as_info(error))
    assert type(again) is type(error)
    assert (again.message, again.details) == (error.message, error.details)
    assert again.retry_after_ms == 700
    assert again.details["job_id"] == "j"


def test_only_the_tenant_s_own_private_node_is_its_own() -> None:
    private = node(public=False, tenant=TenantId("t"))
    view = CellView.of(0, [private, node(1, tenant=TenantId("t"))])
    assert own_node(view, NodeId("n0"), TenantId("t")) == 1
    assert own_node(view, NodeId("n0"), TenantId("other")) == 0
    assert own_node(view, NodeId("n1"), TenantId("t")) == 0, "a public one needs no welcome"
    assert own_node(view, NodeId("gone"), TenantId("t")) == 0


def test_an_explanation_counts_each_cell_once_however_often_it_was_asked() -> None:
    made = decision(node(), node(1, ready=False))
    made.whole = False
    made.looks_at([0])
    made.looks_at([0])
    made.chosen = NodeId("n0")
    assert made.counts() == {"not_ready": 1}
    assert made.explanation(1).shards_tried == (0,)
