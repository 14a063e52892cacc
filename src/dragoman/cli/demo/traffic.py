"""Live traffic: speakers that come, say a few things, and leave."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from dragoman.cli.demo.speaker import DemoSpeaker
from dragoman.cli.demo.tally import DemoTally

_SECONDS_BETWEEN_UTTERANCES = 2.0
"""The average time between two utterances of one speaker."""
_MOST_SPEAKERS = 300
_FAREWELL_SECONDS = 3.0


class DemoTraffic:
    """Gives turns to speakers at a rate, and keeps as many speakers as that rate needs."""

    def __init__(
        self, url: str, per_second: float, languages: Sequence[Sequence[str]], random: Random
    ) -> None:
        self._url = url
        self._per_second = per_second
        self._languages = languages
        self._random = random
        self._usual_speakers = min(
            _MOST_SPEAKERS, math.ceil(per_second * _SECONDS_BETWEEN_UTTERANCES)
        )
        self._speakers: dict[asyncio.Task[None], DemoSpeaker] = {}
        self.tally = DemoTally()

    @property
    def sessions(self) -> int:
        """How many speakers there are now."""
        return len(self._speakers)

    async def run(self) -> None:
        """Give turns until cancelled. A turn is lost when every speaker is busy."""
        while True:
            await asyncio.sleep(self._random.expovariate(self._per_second))
            speaker = self._next_speaker()
            if speaker is not None:
                speaker.speak()

    async def finish(self) -> None:
        """Wait for the results of the last utterances."""
        attending = list(self._speakers)
        for speaker in self._speakers.values():
            speaker.leave()
        if attending:
            await asyncio.wait(attending, timeout=_FAREWELL_SECONDS)
        for task in attending:
            task.cancel()
        await asyncio.gather(*attending, return_exceptions=True)

    def _next_speaker(self) -> DemoSpeaker | None:
        free = [speaker for speaker in self._speakers.values() if speaker.is_free]
        room = _MOST_SPEAKERS if not free else self._usual_speakers
        if len(self._speakers) < room:
            return self._newcomer()
        return self._random.choice(free) if free else None

    def _newcomer(self) -> DemoSpeaker:
        languages = self._random.choice(self._languages)
        speaker = DemoSpeaker(
            self._url, languages, Random(self._random.getrandbits(64)), self.tally
        )
        task = asyncio.create_task(speaker.attend())
        self._speakers[task] = speaker
        task.add_done_callback(self._speakers.pop)
        return speaker


@asynccontextmanager
async def running_traffic(
    url: str, per_second: float, languages: Sequence[Sequence[str]], random: Random
) -> AsyncIterator[DemoTraffic]:
    """Traffic for as long as the block lasts; none at a rate of 0.

    Each speaker draws its languages from one of the groups.
    """
    traffic = DemoTraffic(url, per_second, languages, random)
    speaking = asyncio.create_task(traffic.run()) if per_second > 0 else None
    try:
        yield traffic
    finally:
        if speaking is not None:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
        await traffic.finish()
