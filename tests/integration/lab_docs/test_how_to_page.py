"""The page that teaches how to run experiments, taken at its word."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import textwrap
from pathlib import Path

import httpx
import pytest
from tests.integration.lab_api.conftest import Asker

from dragoman.api import create_lab_app, opened_desk
from dragoman.cli import main
from dragoman.lab.targets import Context
from dragoman.observability import Metrics
from dragoman.settings import load_settings
from dragoman.store import upgrade

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "run-experiments.md"
CAPITALS = {"Peru": "Lima", "Kenya": "Nairobi", "Japan": "Tokyo"}
ANSWER = f"CAPITALS = {CAPITALS!r}\ndef answer(country):\n    return CAPITALS[country]\n"


def example(beginning: str) -> str:
    """The example on the page that begins so."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", PAGE.read_text(), re.MULTILINE)
    code = [textwrap.dedent(block).strip("\n") for block in blocks]
    (found,) = [block for block in code if block.startswith(beginning)]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module and the file of cases that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    monkeypatch.setenv("DRAGOMAN_SERVER__DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mymodule", raising=False)
    (tmp_path / "mymodule.py").write_text(ANSWER)
    rows = [{"country": country, "capital": capital} for country, capital in CAPITALS.items()]
    (tmp_path / "capitals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_experiment_of_the_page_runs_and_passes_its_gate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, command = example("# exp.toml").split("\n\n")
    (folder / "exp.toml").write_text(file)

    assert main(command.split()[1:]) == 0

    told = capsys.readouterr().out
    assert "3 succeeded" in told
    assert "gate passed: exact.mean >= 0.9" in told


def test_the_program_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = example("from dragoman import lab").replace("result.to_pandas()", "")
    names: dict[str, object] = {"my_judge": lambda output: len(output), "__name__": "page"}
    exec(ANSWER, names)

    exec(code, names)

    assert "exact: mean 1" in capsys.readouterr().out


def test_the_order_of_the_page_is_taken_over_http(folder: Path) -> None:
    url = f"sqlite:///{folder}/lab.db"
    upgrade(url)
    (body,) = re.findall(r"experiments/submit -d '(.*?)'", example("curl"), re.DOTALL)
    order = json.loads(body)

    async def story() -> None:
        settings = load_settings(None, {"store": {"database_url": url}}).settings
        metrics = Metrics()
        async with (
            opened_desk(settings, Context(), metrics, embedded=False) as desk,
            httpx.AsyncClient(
                transport=httpx.ASGITransport(create_lab_app(desk, metrics)), base_url="http://lab"
            ) as http,
        ):
            asker = Asker(http, "acme")
            rows = [{"said": "Lima", "capital": "Lima"}]
            version = await asker.import_rows(rows, name="capitals")
            made = await asker.post("/experiments/submit", {**order, "dataset_version_id": version})
            assert made.status_code == 201, made.text
            ended = await asker.until_ended(made.json()["experiment_id"])
            assert ended["status"] == "success"

    asyncio.run(story())
