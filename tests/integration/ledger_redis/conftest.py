"""Ledgers on real Redis servers, with keys of their own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random

import pytest
from tests.servers import PATIENT_MS

from dragoman.live.ledger import RedisLedger

OpenLedger = Callable[..., RedisLedger]

_prefixes = count()


@pytest.fixture
def key_prefix() -> str:
    return f"ledger-redis-{next(_prefixes)}"


@pytest.fixture
def open_ledger(key_prefix: str) -> OpenLedger:
    """Open a ledger on a server; the test closes it."""

    def opened(url: str, **options: object) -> RedisLedger:
        settings = {"key_prefix": key_prefix, "timeout_ms": PATIENT_MS, **options}
        return RedisLedger(url, Random(7), **settings)  # type: ignore[arg-type]

    return opened
