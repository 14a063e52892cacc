"""A caller that asks for jobs over HTTP, and asks again until each has an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

import httpx
from tests.integration.cluster_chaos.node_process import translated
from tests.integration.cluster_chaos.records import Answered, Asked, Diary, GaveUp

_WAIT_MS = 2000
_ANSWER_SECONDS = 5.0
_PATIENCE_SECONDS = 300.0
"""Far more than a job may take in all; it counts only while instances say that the job is there."""
_BREATH_SECONDS = 0.3


class Caller:
    """Posts one job after another, each under a request_id of its own, at any instance."""

    def __init__(
        self,
        urls: Mapping[str, str],
        name: str,
        pause_seconds: float,
        seed: int,
        diary: Diary,
        stop: asyncio.Event,
    ) -> None:
        self._urls = {name: f"{url}/api/v1/jobs" for name, url in urls.items()}
        self._name = name
        self._pause_seconds = pause_seconds
        self._random = Random(f"{seed} {name}")
        self._diary = diary
        self._stop = stop
        self._ended: list[tuple[str, str, str]] = []
        """Request, text and job of those that have an end."""

    async def call(self) -> None:
        async with httpx.AsyncClient(timeout=_ANSWER_SECONDS, trust_env=False) as http:
            number = 0
            while not self._stop.is_set():
                await self._ask_until_ended(http, f"{self._name}/{number}")
                number += 1
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._random.uniform(0, 2 * self._pause_seconds)):
                        await self._stop.wait()
            # An end is told to whoever asks later, too, and by every instance.
            for request_id, text, job_id in self._ended:
                await self._look(http, request_id, text, job_id)

    async def _ask_until_ended(self, http: httpx.AsyncClient, request_id: str) -> None:
        """Ask until the job has its end.

        While no instance answers, or all refuse, there is no job that could end: the run as a
        whole ends a caller that gets nowhere.
        """
        text = f"{request_id} asks"
        job_id: str | None = None
        waited_seconds = 0.0
        while waited_seconds < _PATIENCE_SECONDS:
            asked_at = time.monotonic()
            if job_id is None:
                found = await self._post(http, request_id, text)
            else:
                found = await self._look(http, request_id, text, job_id)
            if found is not None and found["outcome"] is not None:
                self._ended.append((request_id, text, found["job_id"]))
                return
            if found is None or found["job_id"] != job_id:
                job_id = found["job_id"] if found is not None else None
                waited_seconds = 0.0
            await asyncio.sleep(_BREATH_SECONDS)
            if found is not None and found["answered"]:
                waited_seconds += time.monotonic() - asked_at
        why = f"job {job_id} had no end within {_PATIENCE_SECONDS:.0f} s"
        self._diary.write(GaveUp(who=request_id, why=why))

    async def _post(
        self, http: httpx.AsyncClient, request_id: str, text: str
    ) -> dict[str, Any] | None:
        body = {
            "request_id": request_id,
            "src_lang": "en",
            "tgt_lang": "es",
            "text": text,
            "wait_ms": _WAIT_MS,
        }
        instance = self._random.choice(list(self._urls))
        self._diary.write(Asked(request_id=request_id, instance_id=instance))
        try:
            answer = await http.post(self._urls[instance], json=body)
        except httpx.HTTPError:
            return None
        return self._write_down(answer, request_id, text)

    async def _look(
        self, http: httpx.AsyncClient, request_id: str, text: str, job_id: str
    ) -> dict[str, Any] | None:
        try:
            answer = await http.get(f"{self._random.choice(list(self._urls.values()))}/{job_id}")
        except httpx.HTTPError:
            return {"job_id": job_id, "outcome": None, "answered": False}
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None  # forgotten: asked anew
        found = self._write_down(answer, request_id, text)
        return found or {"job_id": job_id, "outcome": None, "answered": False}

    def _write_down(
        self, answer: httpx.Response, request_id: str, text: str
    ) -> dict[str, Any] | None:
        """The job that the answer speaks of; None for a refusal."""
        if not answer.is_success:
            return None
        job: dict[str, Any] = answer.json()
        result = job.get("result") or {}
        self._diary.write(
            Answered(
                request_id=request_id,
                wanted=translated(text, "es"),
                job_id=job["job_id"],
                outcome=job.get("outcome"),
                text=result.get("text_translated"),
            )
        )
        return {"job_id": job["job_id"], "outcome": job.get("outcome"), "answered": True}
