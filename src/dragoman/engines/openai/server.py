"""What the stages have in common: one server, one model, and what its failures mean to a job."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from dragoman.clock import SystemClock
from dragoman.engines.stage import Opening, Stage
from dragoman.errors import InvalidMessage, SettingsError
from dragoman.live.protocol import ServiceType
from dragoman.openai_client import Client, ModelServerSettings, Reply
from dragoman.outbound import (
    AddressRules,
    CalledTooOften,
    HttpCaller,
    JsonValue,
    TargetError,
    check_headers,
    check_url,
)
from dragoman.sdk import Device, Job, JobFailed, ModelMissing, Service, ServiceStatus, Usage

T = TypeVar("T")

_DEFAULT_URL = "https://api.openai.com/v1"
_URL_VARIABLE = "OPENAI_BASE_URL"
_KEY_VARIABLE = "OPENAI_API_KEY"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"[\x21-\x7e]+")

_NOT_HERE = frozenset({401, 403, 404})
"""What a server answers to a wrong key, a forbidden model or one that it does not have."""
_DEFAULT_WAIT_SECONDS = 1.0
_MAX_REASON_CHARACTERS = 300


class ServerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a model is, and how it is asked."""

    model: str
    url: str | None = None
    """The server up to its version; without it OPENAI_BASE_URL, else OpenAI's own."""
    key_env: str | None = None
    """The variable that holds the key; without it OPENAI_API_KEY, if that is set."""
    headers: dict[str, str] = {}
    languages: list[str] = []
    """The languages that the model knows; without them the node's owner names them."""
    service_id: str | None = None
    """How the scheduler knows it; the model's name, unless said otherwise."""
    version: str | None = None
    """Of the service: jobs and canaries ask for it as in `whisper@2`."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 30.0
    concurrency: Annotated[int, Meta(ge=1)] | None = None
    """The most requests at once; without it as many as the node has slots."""
    extra: dict[str, JsonValue] = {}
    """More fields for each request, such as temperature."""


class ServerStage(Stage):
    """A stage that asks a server; its subclasses say what."""

    kind: ServiceType

    def __init__(self, options: ServerOptions, opening: Opening) -> None:
        where = f"stages.{self.kind}"
        rules = AddressRules(None, open_mode=True)
        url = options.url or os.environ.get(_URL_VARIABLE) or _DEFAULT_URL
        try:
            check_url(url, f"{where}.url", rules)
            check_headers(options.headers, f"{where}.headers")
        except InvalidMessage as error:
            raise SettingsError(error.message) from None
        settings = ModelServerSettings(
            url=url,
            model=options.model,
            headers=options.headers,
            timeout_seconds=options.timeout_seconds,
        )
        key = _key(options.key_env, where)
        self.client = Client(settings, key, HttpCaller(rules), SystemClock(), who="server")
        self.languages = options.languages or None
        name = options.service_id or f"{options.model}-{self.kind}"
        self.service = Service(
            service_id=re.sub(r"[\s{}]", "_", name)[:128],
            type=self.kind,
            device=Device.GPU,
            status=ServiceStatus.RUNNING,
            version=options.version,
            model_id=options.model[:256],
        )
        self._seats = asyncio.Semaphore(options.concurrency or opening.slots)

    async def close(self) -> None:
        await self.client.close()

    async def ask(self, job: Job, request: Callable[[], Awaitable[T]]) -> T:
        """What the server answers, within the job's time.

        A server that asks to be called later is, once, if the job can wait so long.
        """
        deadline_seconds = max(job.deadline_ms, 1) / 1000
        try:
            async with asyncio.timeout(deadline_seconds) as limit, self._seats:
                try:
                    return await request()
                except CalledTooOften as error:
                    wait_seconds = error.retry_after_seconds or _DEFAULT_WAIT_SECONDS
                    until = asyncio.get_running_loop().time() + wait_seconds
                    if until >= (limit.when() or 0.0):
                        raise
                    await asyncio.sleep(wait_seconds)
                    return await request()
        except TimeoutError:
            raise self.failed(f"did not answer within {deadline_seconds:.1f} seconds") from None
        except CalledTooOften as error:
            raise JobFailed(
                error.code, error.message, details={"retry_after_ms": error.retry_after_ms}
            ) from None
        except TargetError as error:
            if error.answered_status in _NOT_HERE:
                reason = error.message[:_MAX_REASON_CHARACTERS]
                raise ModelMissing(self.service.service_id, reason) from None
            raise JobFailed("ENGINE_FAILED", error.message) from None

    def failed(self, what: str) -> JobFailed:
        """The failure of a job that another node may do."""
        return JobFailed("ENGINE_FAILED", f"{self.service.service_id} {what}.")


def usage_of(reply: Reply) -> Usage | None:
    """The tokens of an answer, where the server counts them."""
    if reply.input_tokens is None and reply.output_tokens is None:
        return None
    return Usage(reply.input_tokens or 0, reply.output_tokens or 0)


def _key(variable: str | None, where: str) -> str | None:
    if variable is not None and not _VARIABLE.fullmatch(variable):
        raise SettingsError(
            f"`{where}.key_env` is not the name of an environment variable, such as "
            f"{_KEY_VARIABLE}; the key itself does not belong there"
        )
    key = os.environ.get(variable or _KEY_VARIABLE, "").strip()
    if not key:
        if variable is None:
            return None  # a server of one's own need not ask for a key
        raise SettingsError(
            f"`{where}.key_env` names the variable {variable}, which is not set; set it to the key"
        )
    if not _KEY.fullmatch(key):
        raise SettingsError(
            f"the variable {variable or _KEY_VARIABLE} holds no key: a key is ASCII without spaces"
        )
    return key
