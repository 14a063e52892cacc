"""Asks a server and reads its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpcore
import httpx
import msgspec

from dragoman.lab.failures import TargetError
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.targets.context import Context
from dragoman.lab.targets.http.addresses import AddressRules
from dragoman.lab.targets.http.answers import Answer, Reading
from dragoman.lab.targets.http.guard import AddressRefused, GuardedNetwork, Lookup, look_up
from dragoman.lab.targets.http.settings import HISTORY, Settings
from dragoman.lab.targets.http.templates import filled, filled_url, places
from dragoman.lab.targets.outputs import Output, PastTurn
from dragoman.version import __version__

MAX_ANSWER_BYTES = 16 * 1024 * 1024

_CONNECT_SECONDS = 10.0
_KEPT_CONNECTIONS = 100
_KEPT_SECONDS = 30.0
_OWN_HEADERS = {
    "accept": "application/json",
    # A compressed answer may unpack to a thousand times its size.
    "accept-encoding": "identity",
    "user-agent": f"dragoman/{__version__}",
}


class HttpTarget:
    """One request a turn. Redirects are not followed: they would carry the headers elsewhere."""

    def __init__(self, settings: Settings, context: Context, lookup: Lookup = look_up) -> None:
        self._settings = settings
        self._clock = context.clock
        self._reading = Reading(settings)
        self._wants_history = HISTORY in {*places(settings.url), *places(settings.body)}
        given = {name.lower(): value for name, value in settings.headers.items()}
        described = {} if settings.body is None else {"content-type": "application/json"}
        self._headers = {**_OWN_HEADERS, **described, **given}
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=GuardedNetwork(AddressRules.of(context), lookup),
        )

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        values = dict(turn)
        if self._wants_history:
            values.setdefault(HISTORY, _plain(history))
        try:
            url = httpx.URL(filled_url(self._settings.url, values))
            body = filled(self._settings.body, values)
        except KeyError as missing:
            raise TargetError(
                f"The turn has no column `{missing.args[0]}`.", retryable=False
            ) from None
        began = self._clock.monotonic()
        answer = await self._ask(url, body)
        latency_ms = (self._clock.monotonic() - began) * 1000
        return self._reading.output(answer, latency_ms, self._clock.now_ms())

    async def close(self) -> None:
        await self._pool.aclose()

    async def _ask(self, url: httpx.URL, body: JsonValue) -> Answer:
        """The answer; raises `TargetError` when there is none."""
        seconds = self._settings.timeout_seconds
        try:
            # The client's own limits are per step; a server that drips would never end.
            async with asyncio.timeout(seconds):
                return await self._exchange(url, body)
        except (TimeoutError, httpcore.TimeoutException) as error:
            raise TargetError(f"No whole answer within {seconds:g} s.") from error
        except AddressRefused as error:
            # Tried again, because a name server may fail; and so an unknown name fails like a
            # private one.
            raise TargetError(f"{error}.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
            raise TargetError(f"No answer: {str(error) or type(error).__name__}.") from error

    async def _exchange(self, url: httpx.URL, body: JsonValue) -> Answer:
        content = None if self._settings.body is None else msgspec.json.encode(body)
        async with self._pool.stream(
            self._settings.method,
            httpcore.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=[("host", url.netloc.decode("ascii")), *self._headers.items()],
            content=content,
            extensions={"timeout": {"connect": _CONNECT_SECONDS}},
        ) as response:
            headers = {
                name.decode("ascii", "replace").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            if headers.get("content-encoding", "identity") != "identity":
                raise TargetError("The answer is compressed; the request did not allow that.")
            return Answer(response.status, headers, await _read(response))


async def _read(response: httpcore.Response) -> bytes:
    found = bytearray()
    async for piece in response.aiter_stream():
        found += piece
        if len(found) > MAX_ANSWER_BYTES:
            raise TargetError(f"The answer is over {MAX_ANSWER_BYTES:,} bytes.", retryable=False)
    return bytes(found)


def _plain(history: Sequence[PastTurn]) -> JsonValue:
    return [{"turn": dict(past.turn), "output": past.output.answer} for past in history]
