"""Asks an OpenAI-compatible server, and reads what it answers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import msgspec

from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.openai_client.events import EventReader
from dragoman.openai_client.settings import ModelServerSettings
from dragoman.outbound import (
    CalledTooOften,
    HttpAnswer,
    HttpCaller,
    HttpRequest,
    JsonValue,
    SentHeaders,
    SentUrl,
    TargetError,
    require_success,
    shortened,
    shown_answer,
    without_secrets,
)

_JSON = "application/json"
_SAID_CHARACTERS = 500
_MOST_TOKENS = 10**12
"""A server that reports more tokens of one answer than this reports nonsense."""


_ReadText = Callable[[Mapping[str, Any], str], str | None]
"""Finds the text of a choice; the second argument is `message`, or `delta` in a stream."""


class Reply(msgspec.Struct, frozen=True):
    """A text that a model answered with, and what it used up."""

    text: str
    latency_ms: float
    tokens: int | None = None
    cost: float | None = None
    first_token_ms: float | None = None
    """From the request to the first text of a streamed answer."""
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    language: str | None = None
    """Of a recording: the language that the server heard, in its own words."""


class Audio(msgspec.Struct, frozen=True):
    """A recording to send."""

    name: str
    content: bytes


class ModelSpeech(msgspec.Struct, frozen=True):
    """A recording that a model answered with."""

    content: bytes
    latency_ms: float


class Client:
    """One server and one model; many requests at once. The caller closes it."""

    def __init__(
        self,
        settings: ModelServerSettings,
        key: str | None,
        caller: HttpCaller,
        clock: Clock,
        *,
        who: str = "target",
        headers: SentHeaders | None = None,
        url: SentUrl | None = None,
    ) -> None:
        """`who` is what messages call the server; `headers` and `url` replace the settings'."""
        self._settings = settings
        self._caller = caller
        self._clock = clock
        self._who = who
        given = headers or SentHeaders(
            {name.lower(): value for name, value in settings.headers.items()}, frozenset()
        )
        authorised = {} if key is None else {"authorization": f"Bearer {key}"}
        self._headers = {**authorised, **given.values}
        self._url = url or SentUrl(settings.url, frozenset())
        self._secrets = given.secrets | self._url.secrets | ({key} if key else set())

    async def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        options: Mapping[str, JsonValue],
        *,
        stream: bool,
    ) -> Reply:
        """The answer of a chat model to a conversation."""
        body = {**options, "model": self._settings.model, "messages": list(messages)}
        return await self._text("chat/completions", body, _chat_text, stream=stream)

    async def complete(
        self, prompt: str, options: Mapping[str, JsonValue], *, stream: bool
    ) -> Reply:
        """The continuation of a prompt."""
        body = {**options, "model": self._settings.model, "prompt": prompt}
        return await self._text("completions", body, _plain_text, stream=stream)

    async def hear(self, path: str, audio: Audio, fields: Mapping[str, str]) -> Reply:
        """What is said in a recording; `path` is transcriptions or translations."""
        given = {"model": self._settings.model, **fields}
        boundary = f"dragoman-{secrets.token_hex(16)}"
        content = _form(given, audio, boundary)
        began = self._clock.monotonic()
        answer = await self._ask(
            f"audio/{path}", content, f"multipart/form-data; boundary={boundary}"
        )
        latency_ms = self._since_ms(began)
        found = self._document(answer)
        text = found.get("text")
        if not isinstance(text, str):
            raise self._no_text(answer)
        language = found.get("language")
        return self._reply(
            text,
            latency_ms,
            found.get("usage"),
            language=language if isinstance(language, str) else None,
        )

    async def speak(self, text: str, options: Mapping[str, JsonValue]) -> ModelSpeech:
        """A text as a recording."""
        body = {**options, "model": self._settings.model, "input": text}
        began = self._clock.monotonic()
        answer = await self._ask("audio/speech", msgspec.json.encode(body), _JSON, accept="*/*")
        latency_ms = self._since_ms(began)
        if not answer.content:
            raise TargetError(f"The {self._who} answered with no audio.")
        if _JSON in answer.headers.get("content-type", ""):
            raise self._hidden(
                TargetError(
                    f"The {self._who} answered with JSON instead of audio: "
                    f"{_said(answer) or shown_answer(answer)}"
                )
            )
        return ModelSpeech(answer.content, latency_ms)

    async def close(self) -> None:
        await self._caller.close()

    # --- asking ---------------------------------------------------------------------------------

    async def _text(
        self, path: str, body: dict[str, Any], read: _ReadText, *, stream: bool
    ) -> Reply:
        if stream:
            return await self._streamed(path, body, read)
        began = self._clock.monotonic()
        answer = await self._ask(path, msgspec.json.encode(body), _JSON)
        latency_ms = self._since_ms(began)
        found = self._document(answer)
        choice = _choice(found)
        text = None if choice is None else read(choice, "message")
        if choice is None or text is None:
            raise self._no_text(answer)
        return self._reply(text, latency_ms, found.get("usage"), finish_reason=_reason(choice))

    async def _streamed(self, path: str, body: dict[str, Any], read: _ReadText) -> Reply:
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        texts: list[str] = []
        usage: Any = None
        reason: str | None = None
        first_token_ms: float | None = None
        began = self._clock.monotonic()

        def on_document(found: Any) -> None:
            nonlocal usage, reason, first_token_ms
            if not isinstance(found, dict):
                return
            if (problem := _problem(found)) is not None:
                raise TargetError(f"The {self._who} broke off its answer: {problem}")
            usage = found.get("usage") or usage
            choice = _choice(found)
            if choice is None:
                return
            reason = _reason(choice) or reason
            if text := read(choice, "delta"):
                if first_token_ms is None:
                    first_token_ms = self._since_ms(began)
                texts.append(text)

        events = EventReader(on_document)
        try:
            await self._ask(path, msgspec.json.encode(body), _JSON, on_piece=events.feed)
            events.end()
        except TargetError as error:
            raise self._hidden(error) from None
        if not events.done and reason is None:
            raise TargetError(f"The {self._who} ended its stream before the answer was complete.")
        return self._reply(
            "".join(texts),
            self._since_ms(began),
            usage,
            first_token_ms=first_token_ms,
            finish_reason=reason,
        )

    async def _ask(
        self,
        path: str,
        content: bytes,
        content_type: str,
        *,
        accept: str = _JSON,
        on_piece: Callable[[bytes], None] | None = None,
    ) -> HttpAnswer:
        """A successful answer; failures are raised in the server's own words, without the key."""
        request = HttpRequest(
            "POST",
            httpx.URL(_joined(self._url.value, path)),
            {"accept": accept, "content-type": content_type, **self._headers},
            content,
            self._settings.timeout_seconds,
        )
        try:
            answer = await self._caller.ask(request, on_piece)
            require_success(answer, self._clock.now_ms(), said=_said(answer), who=self._who)
        except (TargetError, CalledTooOften) as error:
            raise self._hidden(error) from None
        return answer

    def _since_ms(self, began: float) -> float:
        return (self._clock.monotonic() - began) * 1000

    # --- reading --------------------------------------------------------------------------------

    def _document(self, answer: HttpAnswer) -> dict[str, Any]:
        try:
            found = msgspec.json.decode(answer.content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._hidden(
                TargetError(f"The answer is not JSON ({error}): {shown_answer(answer)}")
            ) from None
        if not isinstance(found, dict):
            raise self._no_text(answer)
        if (problem := _problem(found)) is not None:
            # Some servers report errors with status 200.
            raise self._hidden(TargetError(f"The {self._who} answered with an error: {problem}"))
        return found

    def _no_text(self, answer: HttpAnswer) -> DragomanError:
        told = TargetError(f"The answer holds no text: {shown_answer(answer)}", retryable=False)
        return self._hidden(told)

    def _reply(self, text: str, latency_ms: float, usage: Any, **told: Any) -> Reply:
        """The answer with its tokens and its cost, as far as the server reports them."""
        if not isinstance(usage, dict):
            return Reply(text, latency_ms, **told)
        put_in = _count(usage, "prompt_tokens", "input_tokens")
        came_out = _count(usage, "completion_tokens", "output_tokens")
        total = _count(usage, "total_tokens")
        if total is None and (put_in is not None or came_out is not None):
            total = (put_in or 0) + (came_out or 0)
        cost = self._settings.cost(put_in, came_out)
        return Reply(
            text,
            latency_ms,
            total,
            cost,
            input_tokens=put_in,
            output_tokens=came_out,
            **told,
        )

    def _hidden(self, error: TargetError | CalledTooOften) -> TargetError | CalledTooOften:
        """The error without the key, which a server may repeat in what it says."""
        return without_secrets(error, self._secrets)


def _choice(found: Mapping[str, Any]) -> dict[str, Any] | None:
    choices = found.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    return None


def _chat_text(choice: Mapping[str, Any], part: str) -> str | None:
    message = choice.get(part)
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(
            one["text"]
            for one in content
            if isinstance(one, dict) and isinstance(one.get("text"), str)
        )
    if content is None:
        content = message.get("refusal")  # also an answer: the model's own words
    return content if isinstance(content, str) else None


def _plain_text(choice: Mapping[str, Any], part: str) -> str | None:
    text = choice.get("text")
    return text if isinstance(text, str) else None


def _reason(choice: Mapping[str, Any]) -> str | None:
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) else None


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return value
    return None


def _said(answer: HttpAnswer) -> str | None:
    """What the server says went wrong, where it says so in the usual place."""
    if 200 <= answer.status < 300:
        return None
    try:
        found = msgspec.json.decode(answer.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return _problem(found) if isinstance(found, dict) else None


def _problem(found: Mapping[str, Any]) -> str | None:
    error = found.get("error")
    if isinstance(error, dict):
        error = error.get("message") or msgspec.json.encode(error).decode()
    if error is None and found.get("object") == "error":
        error = found.get("message")
    return shortened(error, _SAID_CHARACTERS) if isinstance(error, str) and error else None


def _form(fields: Mapping[str, str], audio: Audio, boundary: str) -> bytes:
    """A form with a file. The boundary is random, so that no recording can hold it."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    name = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in audio.name
    )
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return b"".join([*parts, head.encode(), audio.content, f"\r\n--{boundary}--\r\n".encode()])


def _joined(url: str, path: str) -> str:
    """The address of a path of the server; a query of the server's address stays at the end."""
    server, mark, query = url.partition("?")
    return f"{server.rstrip('/')}/{path}{mark}{query}"
