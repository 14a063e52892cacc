"""Programs that ask for jobs over HTTP during a soak: live, batch, repeated, cancelled, refused."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import httpx
from tests.soak.laws import Laws
from tests.soak.nodes import OWN_LIES, translated

_END_SECONDS = 90.0
"""More than any job may take, lines and retries included."""
_ABSENT = (502, 503, 504)
"""What a proxy or a server says when there is nobody to answer."""
_LOOK_SECONDS = 0.25
_NOBODY = (*map(str, _ABSENT), "SCHEDULER_DEPENDENCY_DOWN", "SERVER_DRAINING")

REFUSED: tuple[dict[str, Any], ...] = (
    {"tgt_lang": "xx"},
    {"tgt_lang": "not a tag"},
    {"features": {"voice_cloning": True}},
    {"features": {"no_such_feature": True}},
    {"audio": "this is no base64"},
    {"text": None},
    {"no_such_field": 1},
    {"pipelines": {"use_tts": True}},
    {"pipeline": {"use_ttts": True}},
    {"pipeline": {"use_nmt": False}},
)
"""What is wrong with requests that must be refused."""


class Caller:
    """Asks for one thing after another, and checks each answer."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        name: str,
        random: Random,
        laws: Laws,
        *,
        is_patient: bool,
    ) -> None:
        """A patient one asks again when nobody answers."""
        self._is_patient = is_patient
        self._http = http
        self._name = name
        self._random = random
        self._laws = laws
        self._number = 0

    async def call(self) -> None:
        """Ask for one random thing, and follow it to its end."""
        self._number += 1
        request_id = f"{self._name}/{self._number}"
        kind = self._random.random()
        if kind < 0.5:
            await self._ask_live(request_id)
        elif kind < 0.75:
            await self._ask_batch(request_id)
        elif kind < 0.9:
            await self._ask_amiss()
        else:
            await self._look_around()

    async def _ask_live(self, request_id: str) -> None:
        body = self._body(request_id, wait_ms=15_000)
        job = await self._post(body)
        if job is None:
            return
        if self._random.random() < 0.3:
            again = await self._post(body)
            if again is not None and job["outcome"] == "success":
                self._laws.count("requests repeated")
                self._laws.require(
                    again["job_id"] == job["job_id"], f"{request_id} made two jobs: {job}, {again}"
                )
        await self._follow(request_id, job)

    async def _ask_batch(self, request_id: str) -> None:
        body = {**self._body(request_id), "class": "batch"}
        job = await self._post(body)
        if job is None:
            return
        if self._random.random() < 0.2:
            answer = await self._ask("DELETE", f"/jobs/{job['job_id']}")
            self._laws.count(f"cancel: {answer.status_code}")
        await self._follow(request_id, job)

    async def _ask_amiss(self) -> None:
        body = {**self._body(f"{self._name}/amiss"), **self._random.choice(REFUSED)}
        answer = await self._ask("POST", "/jobs", body)
        if self._is_patient and answer.is_success and answer.json()["outcome"] is None:
            # While Redis is away nobody can say whether it can be done. It is said later.
            await self._follow(body["request_id"], answer.json())
            return
        self._laws.count(f"refusal: {_code(answer)}")
        self._laws.require(
            400 <= answer.status_code < 500 or answer.status_code == 503,
            f"{body} was answered {answer.status_code} {answer.text[:200]}",
        )

    async def _look_around(self) -> None:
        path = self._random.choice(("/jobs", "/nodes", "/pools", "/sessions", "/metrics"))
        answer = await self._ask("GET", path)
        self._laws.require(answer.status_code == 200, f"GET {path}: {answer.status_code}")

    async def _post(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The job; None where it was refused for lack of a free node."""
        answer = await self._ask("POST", "/jobs", body)
        if answer.is_success:
            job: dict[str, Any] = answer.json()
            return job
        self._laws.count(f"refusal: {_code(answer)}")
        self._laws.require(
            answer.status_code in (429, 503),
            f"{body['request_id']} was answered {answer.status_code} {answer.text[:200]}",
        )
        return None

    async def _follow(self, request_id: str, job: dict[str, Any]) -> None:
        """Look at the job until it has ended: each one must."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                while job.get("outcome") is None:
                    await asyncio.sleep(_LOOK_SECONDS)
                    answer = await self._ask("GET", f"/jobs/{job['job_id']}")
                    if answer.status_code == 404:
                        self._laws.require(False, f"{request_id} was forgotten before its end")
                        return
                    job = answer.raise_for_status().json()
        except TimeoutError:
            self._laws.require(False, f"{request_id} never ended: {job}")
            return
        self._laws.count(f"{job['class']} job: {job['outcome']}")
        if job["outcome"] == "success":
            found = job["result"]["text_translated"]
            wanted = translated(f"{request_id} asks", "es")
            if self._is_patient and str(found).endswith(OWN_LIES):
                self._laws.count("lies of an attempt's own node")
                return
            self._laws.require(found == wanted, f"{request_id} got {found!r}, not {wanted!r}")

    async def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """One request; a patient caller repeats it until there is an answer."""
        while True:
            try:
                answer = await self._http.request(method, path, json=body)
            except httpx.TransportError:
                if not self._is_patient:
                    raise
            else:
                if not (self._is_patient and answer.status_code in _ABSENT):
                    return answer
                if _code(answer) not in _NOBODY:
                    return answer
            self._laws.count("requests without an answer")
            await asyncio.sleep(self._random.uniform(0.1, 0.5))

    def _body(self, request_id: str, **fields: Any) -> dict[str, Any]:
        return {
            "request_id": request_id,
            "src_lang": "en",
            "tgt_lang": "es",
            "text": f"{request_id} asks",
            **fields,
        }


def _code(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return str(answer.status_code)
