"""The cluster's routes, as the commands ask them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from dragoman.api import ClusterShown, LetterShown
from dragoman.errors import (
    BY_CODE,
    DependencyDown,
    DragomanError,
    InternalError,
    SettingsError,
    Unauthorized,
)
from dragoman.live.protocol import ListPage

_PATH = "/api/v1/cluster"
_ANSWER_SECONDS = 30.0

View = TypeVar("View")


class ClusterClient:
    """Asks a running server; refusals are raised as the errors they were."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=_ANSWER_SECONDS)

    async def close(self) -> None:
        await self._http.aclose()

    async def cluster(self) -> ClusterShown:
        return await self._ask(ClusterShown, "GET", "")

    async def letters(self) -> AsyncIterator[LetterShown]:
        """Every dead letter, oldest first."""
        cursor: str | None = None
        while True:
            params = {} if cursor is None else {"cursor": cursor}
            page = await self._ask(ListPage[LetterShown], "GET", "/dead-letters", params=params)
            for letter in page.items:
                yield letter
            cursor = page.next
            if cursor is None:
                return

    async def replay(self, letter_id: str) -> None:
        await self._ask(Any, "POST", f"/dead-letters/{quote(letter_id, safe='')}/replay")

    async def drop(self, letter_id: str) -> None:
        await self._ask(Any, "DELETE", f"/dead-letters/{quote(letter_id, safe='')}")

    async def _ask(self, kind: type[View], method: str, path: str, **request: Any) -> View:
        try:
            answer = await self._http.request(method, _PATH + path, **request)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise SettingsError(
                f"--url {self._url} is no address of a server; write http:// or https://, its name "
                "and its port."
            ) from error
        except httpx.TransportError as error:
            raise DependencyDown(
                f"No server answers at {self._url} ({type(error).__name__}); is it running?"
            ) from error
        if answer.is_error:
            raise _problem_in(answer)
        return msgspec.json.decode(answer.content, type=kind)


class _Problem(msgspec.Struct):
    code: str
    message: str


class _ProblemAnswer(msgspec.Struct):
    error: _Problem


def _problem_in(answer: httpx.Response) -> DragomanError:
    try:
        problem = msgspec.json.decode(answer.content, type=_ProblemAnswer).error
    except msgspec.DecodeError:
        return InternalError(f"The answer was status {answer.status_code}, which says no more.")
    if problem.code == Unauthorized.code:
        return Unauthorized(
            "The server wants an operator's key, and knows none like the one it was shown; name "
            "one with --token or DRAGOMAN_TOKEN."
        )
    return BY_CODE.get(problem.code, InternalError)(problem.message)
