"""A client for a running server: which server a command means, and how it asks it."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
import typer

from dragoman.data_folder import find_server
from dragoman.errors import (
    BY_CODE,
    DependencyDown,
    DragomanError,
    InternalError,
    NotFound,
    SettingsError,
    Unauthorized,
)
from dragoman.live.protocol import ListPage
from dragoman.observability import configure_logging
from dragoman.settings import load_settings

DEFAULT_URL = "http://127.0.0.1:8080"
TOKEN_VARIABLE = "DRAGOMAN_TOKEN"

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The server, or any instance of a cluster.  [default: the server that runs on the "
        f"data folder, or {DEFAULT_URL}]",
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Ask the server that runs on this folder."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="KEY", envvar=TOKEN_VARIABLE, help="API key, if the server needs one."
    ),
]

_ANSWER_SECONDS = 30.0
_PAGE = 1000

View = TypeVar("View")
Result = TypeVar("Result")


class ServerClient:
    """Asks a running server; raises its refusals as the errors that they were there."""

    def __init__(self, url: str, token: str | None) -> None:
        if not _is_address(url):
            raise SettingsError(
                f"--url {url} is not a server's address; write it like {DEFAULT_URL}."
            )
        self._url = url
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(
            base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=_ANSWER_SECONDS
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, kind: type[View], method: str, path: str, **request: Any) -> View:
        """What the server answers."""
        answer = await self._send(method, path, **request)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.MsgspecError:
            raise DependencyDown(
                f"The program at {self._url} is not a Dragoman server of this version."
            ) from None

    async def do(self, method: str, path: str, **request: Any) -> None:
        """Have the server do something that it does not answer with more than yes."""
        await self._send(method, path, **request)

    async def text(self, path: str, **request: Any) -> str:
        """What the server answers, as it is."""
        return (await self._send("GET", path, **request)).text

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            answer = await self._http.request(method, path, **request)
        except httpx.TransportError as error:
            if (untrusted := _untrusted(error)) is not None:
                raise DependencyDown(
                    f"The server at {self._url} has a certificate that is not trusted here "
                    f"({untrusted}); name the file of a self-signed one in the variable "
                    "SSL_CERT_FILE."
                ) from error
            if isinstance(error, httpx.RemoteProtocolError) and self._url.startswith("http://"):
                raise DependencyDown(
                    f"What answers at {self._url} is no server of plain HTTP ({_cause(error)}); "
                    "write https:// if it has TLS, or name another with --url or --data-dir."
                ) from error
            raise DependencyDown(
                f"No server answers at {self._url}: {_cause(error)}; is it running? Name another "
                "with --url or --data-dir."
            ) from error
        if answer.is_error:
            raise _problem_in(answer)
        return answer

    async def pages(
        self, kind: type[View], path: str, *, most: int | None = None, **params: str
    ) -> AsyncIterator[View]:
        """The items of a list, page after page."""
        cursor: str | None = None
        left = most
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            query = {**params, "limit": str(size)} | ({} if cursor is None else {"cursor": cursor})
            page = await self.ask(ListPage[kind], "GET", path, params=query)  # type: ignore[valid-type]
            for item in page.items:
                yield item
            left = None if left is None else left - len(page.items)
            cursor = page.next
            if cursor is None:
                return


def with_server(
    work: Callable[[ServerClient], Awaitable[Result]],
    url: str | None,
    data_dir: Path | None,
    token: str | None,
) -> Result:
    """Run the function with the server that the options mean, on a new event loop."""
    configure_logging("error", "console")
    found = url or running_server(data_dir)

    async def run() -> Result:
        client = ServerClient(found, token)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def running_server(data_dir: Path | None) -> str:
    """The address of the data folder's server; the default address when no folder was named."""
    flags: dict[str, Any] = {"server": {"data_dir": data_dir}}
    environ = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    folder = load_settings(None, flags, environ).settings.server.data_dir
    running = find_server(folder)
    if running is not None:
        return running.url
    if data_dir is not None:
        raise NotFound(f"No server runs on the data folder {folder}; name a server with --url.")
    return DEFAULT_URL


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port past 65535, a bracket that is not closed
        return False


def _untrusted(error: BaseException) -> str | None:
    """Why the server's certificate is not trusted; None when that is not what is wrong."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        cause = cause.__cause__ or cause.__context__
    return None


def _cause(error: httpx.TransportError) -> str:
    """Why there is no answer, in words for the person who typed the command."""
    if isinstance(error, httpx.TimeoutException):
        return "it took too long"
    return str(error).rstrip(".") or "the connection was lost"


class _Problem(msgspec.Struct):
    code: str
    message: str


class _ProblemAnswer(msgspec.Struct):
    error: _Problem


def _problem_in(answer: httpx.Response) -> DragomanError:
    try:
        problem = msgspec.json.decode(answer.content, type=_ProblemAnswer).error
    except msgspec.DecodeError:
        return InternalError(
            f"The server answered with status {answer.status_code} and no explanation."
        )
    if problem.code == Unauthorized.code:
        return Unauthorized(
            "The server needs an API key and does not accept the one it was given; give a valid "
            "one with --token or DRAGOMAN_TOKEN."
        )
    return BY_CODE.get(problem.code, InternalError)(problem.message)
