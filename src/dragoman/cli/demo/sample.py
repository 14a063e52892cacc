"""A sample experiment, so that a demo's lab has something to show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx
import msgspec

from dragoman.observability import get_logger

NAME = "sample: short phrases"

_PHRASES: tuple[Mapping[str, str], ...] = (
    {"source": "Good morning", "reference": "Buenos días", "said": "Buenos días"},
    {"source": "Thank you", "reference": "Gracias", "said": "Muchas gracias"},
    {"source": "See you tomorrow", "reference": "Hasta mañana", "said": "Hasta mañana"},
    {"source": "Where is the station?", "reference": "¿Dónde está la estación?", "said": "Allí"},
    {"source": "Good night", "reference": "Buenas noches", "said": "Buenas noches"},
)
"""Phrases with the recorded output of a model: the sample needs no model."""

_PATIENCE_SECONDS = 30.0

_log = get_logger(__name__)


@asynccontextmanager
async def running_sample(url: str) -> AsyncIterator[None]:
    """Have the server's lab run the sample; if that fails, the demo goes on without it."""
    submitting = asyncio.create_task(_submit(url))
    try:
        yield
    finally:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)


async def _submit(url: str) -> None:
    lines = b"".join(msgspec.json.encode(phrase) + b"\n" for phrase in _PHRASES)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_SECONDS) as http:
            imported = await http.post(
                "/api/v1/datasets",
                data={"name": NAME},
                files={"file": ("phrases.jsonl", lines)},
            )
            if imported.status_code == httpx.codes.CONFLICT:
                # An earlier demo on the same folder has imported it.
                return
            imported.raise_for_status()
            submitted = await http.post("/api/v1/experiments/submit", json=_order(imported.json()))
            submitted.raise_for_status()
    except httpx.HTTPError as error:
        _log.warning("sample_not_run", error=error)


def _order(imported: Mapping[str, object]) -> dict[str, object]:
    return {
        "name": NAME,
        "description": "A model's recorded translations of five phrases, compared with references.",
        "dataset_version_id": imported["version_id"],
        "target": {"kind": "recorded", "output": "said"},
        "evaluators": [
            {"kind": "exact", "reference": "reference"},
            {"kind": "contains", "reference": "reference", "ignore_case": True},
        ],
    }
