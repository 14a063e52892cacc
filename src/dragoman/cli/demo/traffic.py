"""Live traffic: people who say things, each thing one job over HTTP."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import httpx

from dragoman.cli.demo.fleet import LANGUAGES
from dragoman.clock import Clock

SENTENCES = {
    "en": ("Where is the station?", "The meeting starts at nine.", "Could you repeat that?"),
    "es": ("¿Dónde está la estación?", "La reunión empieza a las nueve.", "Gracias por venir."),
    "zh": ("车站在哪里？", "会议九点开始。", "请再说一遍。"),
    "fr": ("Où est la gare ?", "La réunion commence à neuf heures.", "Merci beaucoup."),
    "de": ("Wo ist der Bahnhof?", "Das Treffen beginnt um neun.", "Vielen Dank."),
    "ja": ("駅はどこですか。", "会議は九時に始まります。", "ありがとうございます。"),
}
_SPOKEN_SHARE = 0.3
_SAMPLE_RATE = 16_000
_WAIT_MS = 10_000
_MOST_AT_ONCE = 200
_FAREWELL_SECONDS = 3.0
_KEPT_TIMES = 500


class Traffic:
    """Says things at a rate, and keeps the tally of what came back."""

    def __init__(
        self, client: httpx.AsyncClient, per_second: float, random: Random, clock: Clock
    ) -> None:
        self._client = client
        self._per_second = per_second
        self._random = random
        self._clock = clock
        self._speaking: set[asyncio.Task[None]] = set()
        self.outcomes: Counter[str] = Counter()
        """How many ended with success, or with which code."""
        self.times_ms: deque[float] = deque(maxlen=_KEPT_TIMES)
        """How long the latest successful ones took."""

    @property
    def in_flight(self) -> int:
        return len(self._speaking)

    async def run(self) -> None:
        """Speak until cancelled. Who finds too many speaking already says nothing."""
        while True:
            await asyncio.sleep(self._random.expovariate(self._per_second))
            if len(self._speaking) < _MOST_AT_ONCE:
                task = asyncio.create_task(self._say(utterance(self._random)))
                self._speaking.add(task)
                task.add_done_callback(self._speaking.discard)

    async def finish(self) -> None:
        """Hear out what was said last."""
        if self._speaking:
            await asyncio.wait(self._speaking, timeout=_FAREWELL_SECONDS)
        for task in list(self._speaking):
            task.cancel()
        await asyncio.gather(*self._speaking, return_exceptions=True)

    async def _say(self, body: dict[str, object]) -> None:
        began = self._clock.monotonic()
        try:
            answer = await self._client.post("/api/v1/jobs", json=body)
        except httpx.HTTPError as error:
            self.outcomes[type(error).__name__] += 1
            return
        outcome = _outcome(answer)
        self.outcomes[outcome] += 1
        if outcome == "success":
            self.times_ms.append((self._clock.monotonic() - began) * 1000)


@asynccontextmanager
async def running_traffic(
    url: str, per_second: float, random: Random, clock: Clock
) -> AsyncIterator[Traffic]:
    """Traffic for as long as the block lasts; none at a rate of 0."""
    async with httpx.AsyncClient(base_url=url, timeout=_WAIT_MS / 1000 + 5) as client:
        traffic = Traffic(client, per_second, random, clock)
        speaking = asyncio.create_task(traffic.run()) if per_second > 0 else None
        try:
            yield traffic
        finally:
            if speaking is not None:
                speaking.cancel()
            await traffic.finish()


def utterance(random: Random) -> dict[str, object]:
    """The body of a job: somebody's sentence, typed or spoken, for somebody else."""
    source, target = random.sample(random.choice(LANGUAGES), 2)
    body: dict[str, object] = {"src_lang": source, "tgt_lang": target, "wait_ms": _WAIT_MS}
    if random.random() < _SPOKEN_SHARE:
        samples = int(random.uniform(0.5, 2.0) * _SAMPLE_RATE)
        body["audio"] = b64encode(random.randbytes(2 * samples)).decode()
    else:
        body["text"] = random.choice(SENTENCES[source])
    return body


def _outcome(answer: httpx.Response) -> str:
    """How it ended: success, an error's code, or the state it was left in."""
    found = answer.json()
    if answer.is_error:
        return str(found["error"]["code"])
    if found["error"] is not None:
        return str(found["error"]["code"])
    return str(found["outcome"] or found["state"])
