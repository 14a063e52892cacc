"""The backends that the contract holds for, each opened the way a test needs it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.contract.shared.bench import KEEP_DELIVERED, SESSION_MS, Bench

from dragoman.clock import ManualClock
from dragoman.live.shared import MemorySharedLedger, SharedLedger

BACKENDS = [pytest.param("memory")]

LIVES = {"memory": 30}
"""How many random lives a backend leads in an ordinary run: a few seconds' worth."""


def open_bench(
    request: pytest.FixtureRequest, runner: asyncio.Runner, random: Random, **options: Any
) -> Bench:
    """A bench for the backend that the test is run for; options go to the ledger."""
    options = {"keep_delivered": KEEP_DELIVERED, "session_ms": SESSION_MS} | options
    assert request.param == "memory"
    clock = ManualClock()
    ledger: SharedLedger = MemorySharedLedger(clock, random, **options)
    return Bench(runner, ledger, clock.advance, random)
