"""The page that teaches how to run experiments: what tests/documents cannot wait for.

tests/documents follows the page to the letter; this test waits for the end of what it submits.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
from tests.documents.blocks import blocks_of, file_of
from tests.integration.lab_api.conftest import Asker

from dragoman.api import create_lab_app, opened_desk
from dragoman.lab.plugins import Context
from dragoman.lab.roles import SERVER
from dragoman.observability import Metrics
from dragoman.settings import load_settings
from dragoman.store import upgrade

PAGE = "docs/howto/run-experiments.md"


def test_the_experiment_that_the_page_submits_over_http_succeeds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    upgrade(url)
    typed = "\n".join(block.text for block in blocks_of(PAGE) if block.language == "sh")
    [body] = re.findall(r"experiments/submit -d '(.*)'", typed, re.DOTALL)
    submitted = json.loads(body.replace("'$VERSION'", "v-1"))
    rows = [json.loads(line) for line in file_of(PAGE, "capitals.jsonl").splitlines()]

    async def story() -> None:
        settings = load_settings(None, {"store": {"database_url": url}}).settings
        metrics = Metrics()
        async with (
            opened_desk(settings, Context(), metrics, SERVER) as desk,
            httpx.AsyncClient(
                transport=httpx.ASGITransport(create_lab_app(desk, metrics)), base_url="http://lab"
            ) as http,
        ):
            asker = Asker(http, "acme")
            version = await asker.import_rows(rows, name="capitals")
            made = await asker.post(
                "/experiments/submit", {**submitted, "dataset_version_id": version}
            )
            assert made.status_code == 201, made.text
            ended = await asker.until_ended(made.json()["experiment_id"])
            assert ended["status"] == "success"

    asyncio.run(story())
