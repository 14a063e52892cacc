"""What a node says about itself, and whom its name belongs to."""

from __future__ import annotations

import pytest

from dragoman.ids import NodeId, TenantId
from dragoman.live.fleet import Thresholds
from dragoman.live.fleet.health import RecentUsage
from dragoman.live.fleet.registration import Applicant, holder_of, holds_key, holds_token
from dragoman.live.protocol import ResourceUsage

THRESHOLDS = Thresholds(cpu=85, mem=85, gpu=85, gpu_mem=0)


def means(*samples: ResourceUsage, thresholds: Thresholds = THRESHOLDS) -> dict[str, float]:
    """The resources at or over their thresholds after these heartbeats, with their means."""
    recent = RecentUsage(thresholds)
    recent.add(ResourceUsage(100.0, 100.0, 100.0, 100.0))  # The first of its process.
    for sample in samples:
        recent.add(sample)
    over = {m.resource.value: m.mean_percent for m in recent.means() if m.over}
    assert recent.over == bool(over)
    return over


@pytest.mark.parametrize(
    ("usage", "over"),
    [
        (ResourceUsage(84.9, 84.9), {}),
        (ResourceUsage(85.0, 1.0), {"cpu": 85.0}),
        (ResourceUsage(1.0, 85.0), {"mem": 85.0}),
        (ResourceUsage(1.0, 1.0, gpu_percent=99.0), {"gpu": 99.0}),
        (ResourceUsage(1.0, 1.0, gpu_mem_percent=100.0), {}),
        (ResourceUsage(99.0, 99.0, 99.0, 99.0), {"cpu": 99.0, "mem": 99.0, "gpu": 99.0}),
    ],
)
def test_each_resource_has_a_threshold_of_its_own(
    usage: ResourceUsage, over: dict[str, float]
) -> None:
    assert means(usage, usage, usage) == over


@pytest.mark.parametrize(
    ("cpu_percents", "over"),
    [
        pytest.param([], {}, id="the first sample does not count"),
        pytest.param([100.0], {}, id="one busy heartbeat is no mean"),
        pytest.param([100.0, 100.0], {}, id="nor are two"),
        pytest.param([100.0, 100.0, 100.0], {"cpu": 100.0}, id="three are"),
        pytest.param([1.0, 100.0, 1.0], {}, id="one among calm ones"),
        pytest.param([1.0, 100.0, 100.0, 60.0], {"cpu": 86.7}, id="the last three"),
    ],
)
def test_the_mean_of_the_last_three_heartbeats_is_compared(
    cpu_percents: list[float], over: dict[str, float]
) -> None:
    assert means(*(ResourceUsage(percent, 1.0) for percent in cpu_percents)) == over


def test_a_threshold_of_zero_is_none() -> None:
    full = ResourceUsage(100.0, 100.0, 100.0, 100.0)
    assert means(full, full, full, thresholds=Thresholds()) == {}


def test_a_name_belongs_to_its_key_or_to_its_token_in_the_hands_of_its_tenant() -> None:
    owner = Applicant(TenantId("t"), "key-1")
    colleague = Applicant(TenantId("t"), "key-2")
    stranger = Applicant(TenantId("u"), "key-3")
    name = NodeId("n")
    holder = holder_of(owner, name, "secret")
    assert holds_key(holder, owner)
    assert not holds_key(holder, colleague)
    assert holds_token(holder, colleague, name, "secret")
    assert not holds_token(holder, colleague, name, None)
    assert not holds_token(holder, colleague, name, "guess")
    assert not holds_token(holder, colleague, NodeId("another"), "secret")
    assert not holds_token(holder, stranger, name, "secret")
    assert "secret" not in holder, "the directory cannot give the token away"
