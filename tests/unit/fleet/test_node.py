"""What a node says about itself, and whom its name belongs to."""

from __future__ import annotations

import pytest

from dragoman.ids import TenantId
from dragoman.live.fleet.node import over_threshold
from dragoman.live.fleet.registration import Applicant, belongs, holder_of
from dragoman.live.protocol import ResourceUsage


@pytest.mark.parametrize(
    ("usage", "over"),
    [
        (ResourceUsage(84.9, 84.9), False),
        (ResourceUsage(85.0, 1.0), True),
        (ResourceUsage(1.0, 85.0), True),
        (ResourceUsage(1.0, 1.0, gpu_percent=99.0), True),
        (ResourceUsage(1.0, 1.0, gpu_mem_percent=85.0), True),
        (ResourceUsage(1.0, 1.0, gpu_percent=0.0, gpu_mem_percent=84.0), False),
    ],
)
def test_any_resource_at_the_threshold_counts(usage: ResourceUsage, over: bool) -> None:
    assert over_threshold(usage, 85.0) is over


def test_a_name_belongs_to_its_key_or_to_whoever_shows_its_token() -> None:
    holder = holder_of("key-1", "secret")
    owner = Applicant(TenantId("t"), "key-1")
    other = Applicant(TenantId("t"), "key-2")
    assert belongs(holder, owner, None)
    assert belongs(holder, other, "secret")
    assert not belongs(holder, other, None)
    assert not belongs(holder, other, "guess")
    assert "secret" not in holder, "the directory cannot give the token away"
