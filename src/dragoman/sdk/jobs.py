"""Single jobs over HTTP: asked for, waited for, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
import msgspec

from dragoman.clock import Clock, SystemClock
from dragoman.errors import (
    BY_CODE,
    DependencyDown,
    DragomanError,
    InternalError,
    NotFound,
    ServerDraining,
    SettingsError,
)
from dragoman.ids import JobId
from dragoman.live.protocol import JobRequest, JobState, JobView, ResultAudio, ServedView
from dragoman.outbound import AddressRules, HttpAnswer, HttpCaller, HttpRequest, TargetError
from dragoman.outbound import retry_after_seconds as asked_pause
from dragoman.sdk.transport import Unreachable

LONG_POLL_MS = 20_000
"""How long one request waits for the end of a job; then the client asks again."""

AWAY_SECONDS = 30.0
"""How long `run` asks a server that does not answer, as one that is restarted does not."""

_ANSWER_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 2.0
_LET_GO_SECONDS = 5.0
"""How long a caller that was cancelled waits until its job is."""

_MOST_FORGOTTEN = 3
"""How often a job that the server has lost is asked for again."""

_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
_ENDED = (JobState.FINISHED, JobState.RELEASED)

View = TypeVar("View")


def api_url(url: str) -> str:
    """The address of a server's HTTP API; its sockets' address does as well."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise SettingsError(
            f"`{url}` is not the address of a scheduler; write it like http://127.0.0.1:8080 or"
            " ws://127.0.0.1:8080."
        )
    path = parts.path.rstrip("/").removesuffix("/ws/session").removesuffix("/ws/node")
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, f"{path}/api/v1", "", ""))


class JobsClient:
    """Asks one server for jobs, many at once, and waits for them without polling.

    ``async with JobsClient("http://127.0.0.1:8080") as jobs: await jobs.run(JobRequest(...))``
    """

    def __init__(self, url: str, token: str | None = None, *, clock: Clock | None = None) -> None:
        self.url = url
        self._api = api_url(url)
        self._headers = {"content-type": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._caller = self._open_caller()
        self._clock = clock or SystemClock()

    def _open_caller(self) -> HttpCaller:
        """How requests are made; a program that may not call every address has a way of its own."""
        return HttpCaller(AddressRules(None, open_mode=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._caller.close()

    async def run(
        self,
        request: JobRequest,
        on_view: Callable[[JobView], None] = lambda view: None,
        *,
        look_ms: int = LONG_POLL_MS,
    ) -> JobView:
        """The job, once it has ended, however long that takes.

        A server that does not answer for a moment is asked again; a job that it has lost is made
        again, under the same request_id. When the caller is cancelled, so is the job. `on_view`
        hears of the job each time the server says how far it is: at its start, at its end, and
        every `look_ms` between.
        """
        known: JobView | None = None
        forgotten = 0
        away = _Away(self.url, self._clock)
        try:
            while known is None or known.state not in _ENDED:
                try:
                    if known is None:
                        known = await self.submit(request)
                    else:
                        known = await self.wait(known.job_id, request.result_audio, look_ms)
                except NotFound:
                    forgotten += 1
                    if known is None or forgotten > _MOST_FORGOTTEN:
                        raise
                    known = None
                except (Unreachable, DependencyDown, ServerDraining) as error:
                    await away.wait(error)
                else:
                    away.over()
                    on_view(known)
        except asyncio.CancelledError:
            await self._let_go(request, known)
            raise
        return known

    async def submit(self, request: JobRequest) -> JobView:
        """Make the job, or find the one that this request made before; raises its refusal."""
        return await self._ask("POST", "/jobs", JobView, msgspec.json.encode(request))

    async def wait(
        self,
        job_id: JobId,
        result_audio: ResultAudio = ResultAudio.INCLUDE,
        wait_ms: int = LONG_POLL_MS,
    ) -> JobView:
        """The job as soon as it has ended, or as it is after `wait_ms`."""
        query = f"wait_ms={wait_ms}&result_audio={result_audio.value}"
        path = f"/jobs/{quote(job_id, safe='')}?{query}"
        return await self._ask("GET", path, JobView, patience_seconds=wait_ms / 1000)

    async def check(self, request: JobRequest) -> ServedView:
        """How many nodes could carry the job; raises the refusal if none could. No job is made."""
        return await self._ask("POST", "/jobs/check", ServedView, msgspec.json.encode(request))

    async def cancel(self, job_id: JobId) -> JobView:
        """End the job; raises JobEnded when it has its end already."""
        return await self._ask("DELETE", f"/jobs/{quote(job_id, safe='')}", JobView)

    async def _let_go(self, request: JobRequest, known: JobView | None) -> None:
        """Cancel a job whose result is not wanted any more.

        Batch work waits for ever, so a request whose answer never came is asked for again.
        """
        with suppress(DragomanError, Unreachable, TimeoutError):
            async with asyncio.timeout(_LET_GO_SECONDS):
                if known is None and request.request_id is not None:
                    known = await self.submit(request)
                if known is not None and known.state not in _ENDED:
                    await self.cancel(known.job_id)

    async def _ask(
        self,
        method: str,
        path: str,
        expected: type[View],
        content: bytes | None = None,
        patience_seconds: float = 0.0,
    ) -> View:
        timeout_seconds = _ANSWER_SECONDS + patience_seconds
        url = httpx.URL(f"{self._api}{path}")
        request = HttpRequest(method, url, self._headers, content, timeout_seconds)
        try:
            answer = await self._caller.ask(request)
        except TargetError as error:
            raise Unreachable(
                f"No server answers at {self.url} ({error.message.rstrip('.')})."
            ) from error
        if not 200 <= answer.status < 300:
            raise self._problem_in(answer)
        try:
            return msgspec.json.decode(answer.content, type=expected)
        except msgspec.MsgspecError:
            raise self._not_a_server() from None

    def _problem_in(self, answer: HttpAnswer) -> Exception:
        try:
            problem = msgspec.json.decode(answer.content, type=_ProblemAnswer).error
        except msgspec.MsgspecError:
            if answer.status >= 500:
                return Unreachable(f"The server at {self.url} answered {answer.status}.")
            return self._not_a_server()
        pause_seconds = asked_pause(answer.headers, self._clock.now_ms())
        return BY_CODE.get(problem.code, InternalError)(
            problem.message,
            details=problem.details,
            retry_after_ms=None if pause_seconds is None else round(pause_seconds * 1000),
        )

    def _not_a_server(self) -> Unreachable:
        return Unreachable(f"The program at {self.url} is not a Dragoman server of this version.")


class _Problem(msgspec.Struct):
    code: str
    message: str
    details: dict[str, Any] | None = None


class _ProblemAnswer(msgspec.Struct):
    error: _Problem


class _Away:
    """How long a server has not answered."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._since: float | None = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def over(self) -> None:
        self._since = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    async def wait(self, error: Exception) -> None:
        """Pause before the server is asked again; raises the error once that took too long."""
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > AWAY_SECONDS:
            raise error
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
