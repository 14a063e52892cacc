"""``dragoman experiment kill`` without a server to end the run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from dragoman.auth import DEFAULT_TENANT
from dragoman.cli import main
from dragoman.clock import SystemClock
from dragoman.lab.model import ExperimentSpec, TargetSpec
from dragoman.lab.plane import Lab
from dragoman.lab.roles import EMBEDDED
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import load_settings
from dragoman.store import open_store


def test_the_run_of_a_program_that_died_is_ended_by_the_command_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    (tmp_path / "cases.jsonl").write_text('{"said": "a"}\n')
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    settings = load_settings(None, {}).settings

    async def die_after_a_start() -> None:
        async with await open_store(settings.store.database_url) as store:
            lab = Lab(
                *(store, settings.lab, SystemClock(), Randomness(), Metrics()),
                role=EMBEDDED,
                schedules=False,
                works=False,
            )
            ((version,),) = await store.read(
                lambda c: c.execute(sa.text("SELECT id FROM dataset_version")).all()
            )
            spec = ExperimentSpec("mine", version, TargetSpec("recorded", {"output": "said"}))
            await lab.experiments.submit(DEFAULT_TENANT, spec)

    asyncio.run(die_after_a_start())

    assert main(["experiment", "kill", "mine"]) == 0
    capsys.readouterr()
    main(["experiment", "show", "mine"])
    assert "terminated" in capsys.readouterr().out
