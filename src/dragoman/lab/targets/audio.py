"""Gives targets the audio files that turns refer to."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from dragoman.lab.audio import AudioChanged, AudioFile, AudioFolder
from dragoman.lab.failures import TargetError
from dragoman.lab.model import Turn
from dragoman.lab.targets.caching import CachedTarget
from dragoman.lab.targets.outputs import Output, PastTurn
from dragoman.lab.targets.target import Target


class WithAudio:
    """A target whose turns have an `AudioFile` in each column of audio.

    A file that was left where it is is checked before each call.
    """

    def __init__(self, target: Target, columns: Collection[str], folder: AudioFolder) -> None:
        self._target = target
        self._columns = columns
        self._folder = folder

    async def call(self, turn: Turn, history: Sequence[PastTurn], repetition: int = 0) -> Output:
        given = await asyncio.to_thread(self._opened, turn)
        if isinstance(self._target, CachedTarget):
            return await self._target.call(given, history, repetition)
        return await self._target.call(given, history)

    async def close(self) -> None:
        await self._target.close()

    def _opened(self, turn: Turn) -> Turn:
        given = dict(turn)
        for column in self._columns:
            facts = given.get(column)
            if not isinstance(facts, Mapping):
                continue
            try:
                path = self._folder.find(str(facts.get("sha256", "")))
            except AudioChanged as error:
                name = facts.get("file")
                raise TargetError(
                    f"The audio file {name} cannot be used: {error}.", retryable=False
                ) from None
            given[column] = AudioFile(facts, path)
        return given
