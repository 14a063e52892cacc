"""Counting what jobs used, where they end: a few additions a job, and no waiting."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman.audio import seconds_of
from dragoman.clock import Clock
from dragoman.ids import TenantId
from dragoman.live.dispatch import Job
from dragoman.live.protocol import JobResult

_DAY_MS = 24 * 3600 * 1000

Row = tuple[TenantId, str]
"""A tenant, and a day of UTC as ``2026-01-31``."""


class Amounts:
    """What was used of each kind."""

    __slots__ = ("audio_ms", "characters", "jobs", "tokens_in", "tokens_out")

    def __init__(
        self,
        jobs: int = 0,
        audio_ms: int = 0,
        characters: int = 0,
        tokens_in: int = 0,
        tokens_out: int = 0,
    ) -> None:
        self.jobs = jobs
        self.audio_ms = audio_ms
        self.characters = characters
        self.tokens_in = tokens_in
        self.tokens_out = tokens_out

    def values(self) -> tuple[int, int, int, int, int]:
        return self.jobs, self.audio_ms, self.characters, self.tokens_in, self.tokens_out


class UsageTally:
    """The totals of this process since its start, for the days that are not yet over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._today: dict[TenantId, Amounts] = {}
        self._day = ""
        self._day_ends = 0.0
        """On the monotonic clock, which every caller has read already."""
        self._before: dict[Row, Amounts] = {}
        """Totals of days that are over, until they are written."""

    def count(self, job: Job, output: JobResult, now: float) -> None:
        """A node has done a job. What it does not report is measured: the length of the audio
        that came in, and the characters that were translated or spoken."""
        if now >= self._day_ends:
            self._begin_day(now)
        spec, given, used = job.spec, job.input, output.usage
        amounts = self._today.get(spec.tenant)
        if amounts is None:
            amounts = self._today[spec.tenant] = Amounts()
        amounts.jobs += 1
        seconds, characters = 0.0, 0
        if used is not None:
            amounts.tokens_in += used.tokens_in
            amounts.tokens_out += used.tokens_out
            seconds, characters = used.audio_seconds, used.characters
        audio = given.audio if given is not None else None
        if not seconds and audio is not None:
            seconds = seconds_of(audio, spec.audio_format, spec.sample_rate)
        if not characters:
            text = given.text if given is not None and given.text else output.text_asr
            characters = len(text or "")
        amounts.audio_ms += int(seconds * 1000)
        amounts.characters += characters

    def totals(self) -> dict[Row, tuple[int, int, int, int, int]]:
        """What is to be written: everything counted since the start, of days that may change."""
        today = {(tenant, self._day): found for tenant, found in self._today.items()}
        return {row: found.values() for row, found in (self._before | today).items()}

    def wrote(self, rows: dict[Row, tuple[int, int, int, int, int]]) -> None:
        """The totals were written: days that are over need not be kept."""
        for row, values in rows.items():
            known = self._before.get(row)
            if known is not None and known.values() == values:
                del self._before[row]

    def _begin_day(self, now: float) -> None:
        now_ms = self._clock.now_ms()
        for tenant, amounts in self._today.items():
            self._before[tenant, self._day] = amounts
        self._today = {}
        self._day = datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()
        self._day_ends = now + (_DAY_MS - now_ms % _DAY_MS) / 1000
