"""Asks a server and reads its answer."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import msgspec

from dragoman.lab.failures import CalledTooOften, TargetError
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.plugins import Context
from dragoman.lab.targets.http.answers import AnswerReading
from dragoman.lab.targets.http.settings import HISTORY, HttpTargetSettings
from dragoman.lab.targets.outputs import Output, PastTurn
from dragoman.outbound import (
    HttpCaller,
    HttpRequest,
    Lookup,
    filled,
    filled_url,
    look_up,
    places,
    sent_headers,
    sent_url,
    without_secrets,
)


class HttpTarget:
    """One request a turn."""

    def __init__(
        self, settings: HttpTargetSettings, context: Context, lookup: Lookup = look_up
    ) -> None:
        self._settings = settings
        self._clock = context.clock
        self._reading = AnswerReading(settings)
        self._wants_history = HISTORY in {*places(settings.url), *places(settings.body)}
        given = sent_headers(
            settings.headers, "target.headers", settings.url, context.sendable_keys
        )
        self._url = sent_url(settings.url, "target.url", context.sendable_keys)
        described = {} if settings.body is None else {"content-type": "application/json"}
        self._headers = {**described, **given.values}
        self._secrets = given.secrets | self._url.secrets
        self._caller = HttpCaller(context.address_rules, lookup)

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        url, body = self._filled(self._url.value, turn, history)
        request = HttpRequest(
            self._settings.method,
            httpx.URL(url),
            self._headers,
            None if self._settings.body is None else msgspec.json.encode(body),
            self._settings.timeout_seconds,
        )
        began = self._clock.monotonic()
        try:
            answer = await self._caller.ask(request)
            latency_ms = (self._clock.monotonic() - began) * 1000
            return self._reading.output(answer, latency_ms, self._clock.now_ms())
        except (TargetError, CalledTooOften) as error:
            raise without_secrets(error, self._secrets) from None

    async def asked(self, turn: Turn, history: Sequence[PastTurn]) -> JsonValue:
        """The request of a turn, which decides the answer; keys in it are only named."""
        url, body = self._filled(self._settings.url, turn, history)
        return [url, body]

    async def close(self) -> None:
        await self._caller.close()

    def _filled(self, url: str, turn: Turn, history: Sequence[PastTurn]) -> tuple[str, JsonValue]:
        values = dict(turn)
        if self._wants_history:
            values.setdefault(HISTORY, _plain(history))
        try:
            return filled_url(url, values), filled(self._settings.body, values)
        except KeyError as missing:
            raise TargetError(
                f"The turn has no column `{missing.args[0]}`.", retryable=False
            ) from None


def _plain(history: Sequence[PastTurn]) -> JsonValue:
    return [{"turn": dict(past.turn), "output": past.output.answer} for past in history]
