"""A model on any OpenAI-compatible server, as a target."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Literal

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.failures import TargetError
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.plugins import Context, require_column
from dragoman.lab.targets.outputs import MAIN_COLUMN, Output, PastTurn, checked_json
from dragoman.lab.targets.recordings import as_column, read_audio
from dragoman.openai_client import Audio, Client, ModelServerSettings, Reply, check_key, find_key
from dragoman.outbound import (
    HttpCaller,
    as_text,
    check_headers,
    check_secret_headers,
    check_secret_query,
    check_url,
    filled,
    places,
    sent_headers,
    sent_url,
)

FINISH_COLUMN = "finish_reason"
"""The output column that tells why a model stopped: `stop`, or `length` when it was cut off."""

_LISTENING = frozenset({"transcriptions", "translations"})
_OWN_FIELDS = frozenset(
    {"model", "messages", "prompt", "input", "file", "stream", "stream_options"}
)


class OpenAiTargetSettings(
    ModelServerSettings, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """What a model is asked. ``{{column}}`` in `prompt`, `system` and `language` is filled."""

    api: Literal["chat", "completions", "transcriptions", "translations", "speech"] = "chat"
    prompt: str | None = None
    """What the user says, the text to complete, or the text to speak; a hint for audio."""
    system: str | None = None
    """What a chat model is told before the conversation."""
    audio: str | None = None
    """The column with the recording, for transcriptions and translations."""
    language: str | None = None
    """The language that is spoken in the recording."""
    voice: str = "alloy"
    """The voice of speech."""
    format: str = "mp3"
    """The format of speech."""
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    seed: int | None = None
    stream: bool = False
    """Read the answer as it is written; the time of its first text is `first_token_ms`."""
    json: bool = False
    """Ask for a JSON object; the output is that object."""
    extra: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    """More fields of the request, such as top_p."""


def check(settings: OpenAiTargetSettings, columns: Collection[str], context: Context) -> None:
    """Refuse what cannot work or is not allowed."""
    check_url(settings.url, "target.url", context.address_rules)
    check_secret_query(settings.url, "target.url", context.sendable_keys)
    check_headers(settings.headers, "target.headers")
    check_secret_headers(settings.headers, "target.headers", settings.url, context.sendable_keys)
    check_key(settings, "target", context.sendable_keys)
    if settings.api in _LISTENING:
        if settings.audio is None:
            raise _unusable("target.audio", f"{settings.api} needs the column of the recording")
        require_column(settings.audio, columns, "target.audio")
    elif settings.prompt is None:
        raise _unusable("target.prompt", f"{settings.api} needs a prompt, such as {{{{source}}}}")
    if settings.stream and settings.api not in ("chat", "completions"):
        raise _unusable("target.stream", f"{settings.api} has no streamed answers")
    if settings.json and settings.api != "chat":
        raise _unusable("target.json", f"{settings.api} cannot be asked for JSON")
    for name in sorted(_OWN_FIELDS.intersection(settings.extra)):
        raise _unusable(f"target.extra.{name}", "it has a setting of its own, or is not for users")
    for name in ("prompt", "system", "language"):
        for column in places(getattr(settings, name)):
            require_column(column, columns, f"target.{name}")


def unpriced(settings: OpenAiTargetSettings) -> str | None:
    """Why the cost of a call cannot be known."""
    if settings.api == "speech":
        return "a server that speaks reports no tokens, so no price tells the cost"
    return settings.unpriced("target")


class OpenAiTarget:
    """One request a turn. The turns before it are the conversation so far."""

    def __init__(self, settings: OpenAiTargetSettings, context: Context) -> None:
        self._settings = settings
        self._context = context
        key = find_key(settings, "target", context.sendable_keys)
        headers = sent_headers(
            settings.headers, "target.headers", settings.url, context.sendable_keys
        )
        self._client = Client(
            settings,
            key,
            HttpCaller(context.address_rules),
            context.clock,
            headers=headers,
            url=sent_url(settings.url, "target.url", context.sendable_keys),
        )

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        settings = self._settings
        if settings.api in _LISTENING:
            audio = await asyncio.to_thread(self._recording, turn)
            return _output(await self._client.hear(settings.api, audio, self._hints(turn)))
        prompt = self._filled(settings.prompt, turn)
        if settings.api == "speech":
            speech = await self._client.speak(prompt, self._options())
            column = as_column(speech.content, settings.format)
            return Output({MAIN_COLUMN: column}, latency_ms=speech.latency_ms)
        if settings.api == "completions":
            reply = await self._client.complete(prompt, self._options(), stream=settings.stream)
            return _output(reply)
        messages = self._messages(turn, history)
        reply = await self._client.chat(messages, self._options(), stream=settings.stream)
        return _json_output(reply) if settings.json else _output(reply)

    async def asked(self, turn: Turn, history: Sequence[PastTurn]) -> JsonValue:
        """The request of a turn, which decides the answer."""
        if self._settings.api in _LISTENING:
            audio = await asyncio.to_thread(self._recording, turn)
            return [sha256(audio.content).hexdigest(), dict(self._hints(turn))]
        if self._settings.api == "chat":
            return [dict(one) for one in self._messages(turn, history)]
        return self._filled(self._settings.prompt, turn)

    async def close(self) -> None:
        await self._client.close()

    def _messages(self, turn: Turn, history: Sequence[PastTurn]) -> list[dict[str, str]]:
        settings = self._settings
        said: list[tuple[str, str]] = []
        if settings.system is not None:
            said.append(("system", self._filled(settings.system, turn)))
        for past in history:
            said.append(("user", self._filled(settings.prompt, past.turn)))
            said.append(("assistant", as_text(past.output.answer)))
        said.append(("user", self._filled(settings.prompt, turn)))
        return [{"role": role, "content": content} for role, content in said]

    def _options(self) -> dict[str, JsonValue]:
        settings = self._settings
        if settings.api == "speech":
            return {**settings.extra, "voice": settings.voice, "response_format": settings.format}
        given: dict[str, JsonValue] = {
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "seed": settings.seed,
            "response_format": {"type": "json_object"} if settings.json else None,
        }
        return {**settings.extra, **{name: v for name, v in given.items() if v is not None}}

    def _hints(self, turn: Turn) -> Mapping[str, str]:
        """The fields of a form beside the recording."""
        settings = self._settings
        hints = {name: as_text(value) for name, value in settings.extra.items()}
        for name in ("prompt", "language"):
            template = getattr(settings, name)
            if template is not None:
                hints[name] = self._filled(template, turn)
        if settings.temperature is not None:
            hints["temperature"] = f"{settings.temperature:g}"
        return {"response_format": "json", **hints}

    def _recording(self, turn: Turn) -> Audio:
        column = self._settings.audio or ""
        if column not in turn:
            raise _no_column(column)
        return read_audio(turn[column], column, self._context)

    def _filled(self, template: str | None, turn: Turn) -> str:
        try:
            return as_text(filled(template or "", turn))
        except KeyError as missing:
            raise _no_column(str(missing.args[0])) from None


def _output(reply: Reply) -> Output:
    columns: dict[str, JsonValue] = {MAIN_COLUMN: reply.text}
    return _measured(columns, reply)


def _json_output(reply: Reply) -> Output:
    try:
        found = checked_json(msgspec.json.decode(reply.text))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TargetError(
            f"The target was asked for JSON and answered {reply.text[:200]!r} ({error})."
        ) from None
    return _measured({MAIN_COLUMN: found}, reply)


def _measured(columns: dict[str, JsonValue], reply: Reply) -> Output:
    if reply.finish_reason is not None:
        columns[FINISH_COLUMN] = reply.finish_reason
    return Output(
        columns,
        tokens=reply.tokens,
        cost=reply.cost,
        latency_ms=reply.latency_ms,
        first_token_ms=reply.first_token_ms,
    )


def _no_column(name: str) -> TargetError:
    return TargetError(f"The turn has no column `{name}`.", retryable=False)


def _unusable(where: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {reason}.", details={"field": where})
