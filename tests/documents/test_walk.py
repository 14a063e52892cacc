"""The page that walks with an utterance names what a real job goes through, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.profiling.measure import calls_of_jobs

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "walk.md"
SMALL_HELP = {
    "dragoman.live.budget",
    "dragoman.live.dispatch.explain",
    "dragoman.live.sessions.delivery",
    "dragoman.live.sessions.past",
    "dragoman.live.dispatch.telemetry",
    "dragoman.live.dispatch.timeouts",
    "dragoman.live.dispatch.job",
    "dragoman.live.ledger.memory.recent",
    "dragoman.live.protocol.client_messages",
    "dragoman.live.protocol.languages",
    "dragoman.observability.histogram",
    "dragoman.usage.tally",
}
"""Modules that a stop calls for a number, a message or a note, and that call no other."""


@pytest.fixture(scope="module")
def seen() -> dict[str, float]:
    """How often each function is called for a text job."""
    return calls_of_jobs(1.5).each


def stops() -> list[str]:
    return re.findall(r"^\| `(live\.[\w.]+)` \|", PAGE.read_text(), re.MULTILINE)


def test_every_stop_is_on_the_way_of_a_real_job(seen: dict[str, float]) -> None:
    missing = [stop for stop in stops() if seen.get(f"dragoman.{stop}", 0.0) < 0.5]
    assert missing == [], "the page names functions that a job does not go through"


def test_every_module_on_the_way_is_on_the_page(seen: dict[str, float]) -> None:
    named = {f"dragoman.{stop}".rsplit(".", 2)[0] for stop in stops()}
    named |= {f"dragoman.{stop}".rsplit(".", 1)[0] for stop in stops()}
    met = {
        name.rsplit(".", 2)[0] if name.rsplit(".", 2)[1][:1].isupper() else name.rsplit(".", 1)[0]
        for name, calls in seen.items()
        if calls >= 0.5 and name.startswith("dragoman.")
    }
    met = {re.sub(r"\.(_?[A-Z]\w*|\w+\.<locals>).*$", "", module) for module in met}
    assert met - named - SMALL_HELP == set(), "a job goes through modules that the page leaves out"
