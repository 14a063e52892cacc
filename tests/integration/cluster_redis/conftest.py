"""Instances on real Redis servers, with keys of their own."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.servers import PATIENT_MS

from dragoman.ids import InstanceId, new_id
from dragoman.live.cluster import ClusterTerms, RedisPeers

OpenPeers = Callable[..., RedisPeers]


@pytest.fixture
def key_prefix() -> str:
    return new_id(Random(), "cluster-redis")


@pytest.fixture
def open_peers(key_prefix: str) -> OpenPeers:
    """Open an instance's place on a server; the test closes it."""

    def opened(
        url: str, name: str, terms: ClusterTerms | None = None, **options: object
    ) -> RedisPeers:
        settings = {"key_prefix": key_prefix, "timeout_ms": PATIENT_MS, **options}
        return RedisPeers(url, InstanceId(name), Random(), terms, **settings)  # type: ignore[arg-type]

    return opened
