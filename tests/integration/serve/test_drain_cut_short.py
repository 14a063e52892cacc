"""A server that stops before its work has ended warns of it, unless it was told not to wait."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.unit.api.application import settings_in

from dragoman.api import Parts, running_server


class EndlessWork:
    """A plane whose work never ends by itself."""

    async def start(self) -> None:
        return None

    async def drain(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        return None


@pytest.mark.parametrize(("drain_seconds", "level"), [(0.01, logging.WARNING), (0, logging.INFO)])
def test_work_that_is_cut_off_is_a_warning_only_where_the_settings_ask_to_wait_for_it(
    drain_seconds: float, level: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        settings = settings_in(tmp_path, server={"drain_seconds": drain_seconds})
        async with running_server(settings, assemble=lambda _: Parts(planes=[EndlessWork()])):
            pass

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    told = [record for record in caplog.records if "drain_cut_short" in record.getMessage()]
    assert [record.levelno for record in told] == [level]
    assert [record.getMessage() for record in caplog.records if record.levelno > level] == []
