"""A lab with something in it: datasets, and experiments that have ended."""

from __future__ import annotations

import io
import json
import math
import os
import struct
import wave
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import httpx
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    environment,
    eventually,
)

ROOT = Path(__file__).parents[2]
TARGETS = "tests.integration.lab_api.targets"
MARKUP = "<img/src=x/onerror=alert(1)>"
Ids = dict[str, str]
ENDED = ("success", "failed", "terminated")

SENTENCES = [
    {
        "source": f"good morning {number} {MARKUP}",
        "reference": f"buenos días {number} amigos",
        "first": f"buenos días {number} amigos" if number % 3 else f"x días {number}",
        "second": f"buenos días {number} amigos" if number % 5 else f"buenas noches {number}",
        "domain": "chat" if number % 2 else f"news {MARKUP}",
    }
    for number in range(30)
]

EVALUATORS = [
    {"kind": "exact", "reference": "reference"},
    {"kind": "chrf", "reference": "reference"},
]


def lab_environment(**variables: str) -> dict[str, str]:
    """The environment of a server whose lab may call the tests' own functions."""
    return environment(
        DRAGOMAN_LAB__PYTHON_ALLOW='["tests.integration.lab_api.*"]',
        # Beside what is there already: a tree that is not installed runs its own code.
        PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        **variables,
    )


class Served(Protocol):
    """A server that answers somewhere."""

    @property
    def url(self) -> str: ...


class LabCaller:
    """Asks a server's lab over HTTP, as programs do."""

    def __init__(self, server: Served, key: str | None = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(
            base_url=f"{server.url}/api/v1", headers=headers, timeout=PATIENCE_SECONDS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **params: Any) -> Any:
        return self._http.get(path, params=params).raise_for_status().json()

    def post(self, path: str, body: object = None) -> Any:
        answer = self._http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def import_file(self, name: str, file: str, content: bytes, **fields: str) -> dict[str, Any]:
        """What the file became."""
        form = {"name": name, **fields}
        answer = self._http.post("/datasets", data=form, files={"file": (file, content)})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def import_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self.import_file(name, "rows.jsonl", jsonl(rows))

    def submit(self, name: str, version_id: str, target: Mapping[str, Any], **order: Any) -> str:
        """The id of a new experiment that runs."""
        order = {
            "name": name,
            "dataset_version_id": version_id,
            "target": target,
            "evaluators": EVALUATORS,
            **order,
        }
        return str(self.post("/experiments/submit", order)["experiment_id"])

    def ended(self, experiment_id: str) -> dict[str, Any]:
        """The experiment, once it is over and its scores are kept."""
        found: dict[str, Any] = {}

        def is_over() -> bool:
            found.update(self.get(f"/experiments/{experiment_id}"))
            has_scores = bool(found["scores"]) or not found["evaluators"]
            return found["status"] in ENDED and has_scores

        eventually(is_over, f"experiment {experiment_id} ended")
        return found

    def recorded(self, name: str, version_id: str, output: str, **order: Any) -> str:
        """An experiment that scores a column, and has ended."""
        target = {"kind": "recorded", "output": output}
        experiment_id = self.submit(name, version_id, target, **order)
        self.ended(experiment_id)
        return experiment_id


def filled_lab(lab: LabCaller, rows: Sequence[Mapping[str, Any]], name: str = "shown") -> Ids:
    """Fill a lab for its pages; what it then has, by the names that stand in addresses."""
    imported = lab.import_rows("sentences", rows)
    lab.import_file("spoken", "spoken.zip", spoken_archive(), audio="recording")
    shown = lab.recorded(name, imported["version_id"], "first")
    lab.post(f"/experiments/{shown}/runs", {"mode": "retry_all"})
    lab.ended(shown)  # a second run: quality is drawn over time
    other = lab.recorded("other", imported["version_id"], "second")
    letters = lab.import_rows("letters", [{"said": said} for said in "ab"])
    endless = {"kind": "python", "function": f"{TARGETS}:endless_but_a"}
    running = lab.submit("running", letters["version_id"], endless, evaluators=[])
    (row,) = lab.post(f"/experiments/{shown}/results", {"limit": 1})["items"]
    return {
        "name": name,
        "dataset": imported["dataset_id"],
        "experiment": shown,
        "other": other,
        "running": running,
        "item": row["item_id"],
    }


def jsonl(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def spoken_archive() -> bytes:
    """A zip with a table and the sound that its row names."""
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        samples = (int(8_000 * math.sin(n / 10)) for n in range(3_200))
        file.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("rows.jsonl", jsonl([{"recording": "tone.wav", "words": "a tone"}]))
        packed.writestr("tone.wav", sound.getvalue())
    return archive.getvalue()
