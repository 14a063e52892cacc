"""When a worker hands a place on to another worker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.ids import TenantId
from dragoman.lab.model import ExperimentId, RunId
from dragoman.lab.presence import SILENT_MS
from dragoman.lab.repository import RunAtWork, SeenWorker, Working
from dragoman.lab.worker.others import Load, loads_of, want_places
from dragoman.lab.worker.workplace import ahead_seconds


def seen(
    owner: str,
    *items: int,
    capacity: int = 8,
    is_draining: bool = False,
    silent_ms: int = 0,
) -> SeenWorker:
    doing = tuple(
        RunAtWork(RunId(f"r{n}"), ExperimentId("e"), TenantId("t"), one, 0)
        for n, one in enumerate(items)
    )
    working = Working(
        owner=owner,
        host="here",
        pid=1,
        version="1",
        schedules=False,
        mirror="",
        is_draining=is_draining,
        capacity=capacity,
        items_done=0,
        items_per_second=0.0,
        doing=doing,
        started_at_ms=0,
    )
    return SeenWorker(working, 0, silent_ms)


def test_only_others_that_live_and_take_items_count() -> None:
    found = loads_of(
        [
            seen("me", 7),
            seen("other", 2, 3),
            seen("idle"),
            seen("scheduler", capacity=0),
            seen("leaving", is_draining=True),
            seen("silent", silent_ms=SILENT_MS),
        ],
        "me",
    )

    assert found == [Load(5, 8), Load(0, 8)]


@pytest.mark.parametrize(
    ("others", "items", "wanted"),
    [
        ([], 8, False),
        ([Load(0, 8)], 8, True),
        ([Load(6, 8)], 8, True),
        ([Load(7, 8)], 8, False),  # they would only change places
        ([Load(8, 8)], 32, False),  # it is full
        ([Load(8, 8), Load(3, 8)], 8, True),
    ],
)
def test_a_place_goes_to_a_worker_that_has_room_and_less_to_do(
    others: Sequence[Load], items: int, wanted: bool
) -> None:
    assert want_places(others, items) is wanted


@pytest.mark.parametrize(
    ("write_seconds", "seconds"), [(0.0, 0.2), (0.05, 0.2), (0.2, 0.45), (9.0, 0.7)]
)
def test_more_is_set_aside_where_writes_take_long(write_seconds: float, seconds: float) -> None:
    assert ahead_seconds(write_seconds) == pytest.approx(seconds)
