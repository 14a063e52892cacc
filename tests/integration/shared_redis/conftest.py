"""Shared ledgers on real Redis servers, by the servers' own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from tests.contract.shared.bench import KEEP_DELIVERED, SESSION_MS, Bench
from tests.servers import PATIENT_MS

from dragoman.live.shared import RedisSharedLedger

OpenBench = Callable[..., Bench]

SEED = 20_261_117

_prefixes = count()


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands keep what they did in a database: not in that of who runs the tests."""
    monkeypatch.setenv("DRAGOMAN_SERVER__DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def open_bench() -> Iterator[OpenBench]:
    """Open ledgers at URLs, with the same keys; time cannot be moved."""
    prefix = f"shared-redis-{next(_prefixes)}"
    with asyncio.Runner() as runner:
        opened: list[Bench] = []

        def no_time_machine(seconds: float) -> None:
            raise AssertionError("the server's time runs by itself")

        async def open_ledger(url: str, options: dict[str, object]) -> RedisSharedLedger:
            settings = {
                "keep_delivered": KEEP_DELIVERED,
                "session_ms": SESSION_MS,
                "timeout_ms": PATIENT_MS,
                "key_prefix": prefix,
                **options,
            }
            random = Random(SEED - 1 - len(opened))
            return RedisSharedLedger(url, random, **settings)  # type: ignore[arg-type]

        def make(url: str, **options: object) -> Bench:
            ledger = runner.run(open_ledger(url, options))
            bench = Bench(runner, ledger, no_time_machine, Random(SEED + len(opened)))
            opened.append(bench)
            return bench

        yield make
        for bench in opened:
            bench(bench.ledger.stop())


def ledger_of(bench: Bench) -> RedisSharedLedger:
    assert isinstance(bench.ledger, RedisSharedLedger)
    return bench.ledger
