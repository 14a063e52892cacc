"""An evaluation engineer in a soak: small experiments, one after another, deleted when read."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import httpx
from tests.integration.lab_api.conftest import ENDED, jsonl
from tests.soak.laws import Laws
from tests.soak.nodes import translated

KEPT_EXPERIMENTS = 2
"""How many of the last ones that only score recorded outputs are kept; all others are deleted."""
_ROWS = [
    {"source": f"sentence {n}", "said": f"s {n}", "meant": f"s {n if n % 5 else 0}"}
    for n in range(20)
]
_NAME = "soak"
"""The dataset that every experiment uses."""
_END_SECONDS = 120.0


class Experimenter:
    """Runs experiments over one dataset: recorded outputs, and the fleet behind POST /jobs."""

    def __init__(self, http: httpx.AsyncClient, url: str, random: Random, laws: Laws) -> None:
        self._http = http
        self._url = url
        self._random = random
        self._laws = laws
        self._version_id = ""
        self._kept: list[str] = []
        self._number = 0

    async def prepare(self) -> None:
        """Import the dataset, and run as many experiments as are kept."""
        self._version_id = await self._import()
        for _ in range(KEPT_EXPERIMENTS):
            await self._run(over_the_fleet=False)

    async def run_one(self) -> None:
        """Make an experiment, follow it to its end, read its results, clean up."""
        if self._random.random() < 0.25:
            await self._import_and_delete()
        await self._run(over_the_fleet=self._random.random() < 0.5)

    async def _run(self, *, over_the_fleet: bool) -> None:
        await self._delete_strays()
        self._number += 1
        target = self._fleet() if over_the_fleet else {"kind": "recorded", "output": "said"}
        reference = "wanted" if over_the_fleet else "meant"
        order = {
            "name": f"soak {self._number}",
            "dataset_version_id": self._version_id,
            "target": target,
            "evaluators": [{"kind": "exact", "reference": reference}],
            "concurrency": 2,
            "retries": 2,
        }
        made = (await self._http.post("/experiments/submit", json=order)).raise_for_status().json()
        experiment_id = made["experiment_id"]
        killed = over_the_fleet and self._random.random() < 0.2
        if killed:
            answer = await self._http.post(f"/experiments/{experiment_id}/kill")
            self._laws.count(f"kill: {answer.status_code}")
        found = await self._until_ended(experiment_id)
        if found is None:
            return
        self._laws.count(f"experiment: {found['status']}")
        if not killed:
            await self._check(experiment_id, found, over_the_fleet)
        if over_the_fleet:
            await self._delete(experiment_id)
        else:
            self._kept.append(experiment_id)
            while len(self._kept) > KEPT_EXPERIMENTS:
                await self._delete(self._kept.pop(0))

    async def _import(self) -> str:
        rows = [{**row, "wanted": translated(row["source"], "es")} for row in _ROWS]
        made = await self._import_rows(_NAME, rows)
        return str(made.raise_for_status().json()["version_id"])

    async def _import_and_delete(self) -> None:
        """Import a dataset that no experiment uses, and delete it; sometimes one that is broken."""
        self._number += 1
        broken = self._random.random() < 0.3
        rows: list[Any] = [{"source": f"row {n}"} for n in range(50)]
        answer = await self._import_rows(
            f"unused {self._number}", [*rows, "broken"] if broken else rows
        )
        self._laws.count(f"import: {answer.status_code}")
        if answer.is_server_error:
            answer.raise_for_status()
        self._laws.require(
            answer.status_code == (422 if broken else 201),
            f"an import was answered {answer.status_code} {answer.text[:200]}",
        )
        if answer.status_code == 201:
            await self._delete_dataset(answer.json()["dataset_id"])

    async def _delete_dataset(self, dataset_id: str) -> None:
        answer = await self._http.delete(f"/datasets/{dataset_id}")
        self._laws.require(
            answer.status_code == 204,
            f"DELETE of dataset {dataset_id}: {answer.status_code} {answer.text[:200]}",
        )

    async def _import_rows(self, name: str, rows: list[Any]) -> httpx.Response:
        return await self._http.post(
            "/datasets", data={"name": name}, files={"file": ("d.jsonl", jsonl(rows))}
        )

    def _fleet(self) -> dict[str, Any]:
        body = {"src_lang": "en", "tgt_lang": "es", "text": "{{source}}", "wait_ms": 15_000}
        return {
            "kind": "http",
            "url": f"{self._url}/api/v1/jobs",
            "body": body,
            "output": "$.result.text_translated",
        }

    async def _until_ended(self, experiment_id: str) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(_END_SECONDS):
                while True:
                    answer = await self._http.get(f"/experiments/{experiment_id}")
                    found: dict[str, Any] = answer.raise_for_status().json()
                    if found["status"] in ENDED:
                        return found
                    await asyncio.sleep(0.2)
        except TimeoutError:
            self._laws.require(False, f"experiment {experiment_id} never ended")
            return None

    async def _check(self, experiment_id: str, found: dict[str, Any], over_the_fleet: bool) -> None:
        stats = found["stats"]
        ended = stats["success"] + stats["fail"]
        self._laws.require(
            ended == len(_ROWS), f"experiment {experiment_id} ended with {stats}: {found}"
        )
        if not over_the_fleet:
            self._laws.require(found["status"] == "success", f"{experiment_id}: {found}")
        answer = await self._http.post(f"/experiments/{experiment_id}/results", json={"limit": 100})
        rows = answer.raise_for_status().json()["items"]
        self._laws.require(
            len(rows) == len(_ROWS), f"experiment {experiment_id} has {len(rows)} rows"
        )
        self._laws.count("experiment items", len(rows))

    async def _delete_strays(self) -> None:
        """Delete what the engineer never heard of, or lost the server over.

        An order can arrive and its answer be lost: the experiment is then made and run, rightly,
        and a dataset is imported.
        """
        page = (await self._http.get("/experiments")).raise_for_status().json()
        for found in page["items"]:
            if found["experiment_id"] not in self._kept and found["status"] in ENDED:
                self._laws.count("experiment: left behind")
                await self._delete(found["experiment_id"])
        page = (await self._http.get("/datasets")).raise_for_status().json()
        for found in page["items"]:
            if found["name"] != _NAME:
                self._laws.count("dataset: left behind")
                await self._delete_dataset(found["dataset_id"])

    async def _delete(self, experiment_id: str) -> None:
        answer = await self._http.delete(f"/experiments/{experiment_id}")
        self._laws.require(
            answer.status_code == 204,
            f"DELETE of {experiment_id}: {answer.status_code} {answer.text[:200]}",
        )
