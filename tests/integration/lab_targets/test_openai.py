"""The `openai` target against a real server: what is asked, understood, refused and kept secret."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.servers.openai_server import OpenAiServer

from dragoman.errors import Forbidden, InvalidMessage, SchemaMismatch
from dragoman.lab.failures import CalledTooOften, TargetError
from dragoman.lab.model import TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import (
    TARGETS,
    Output,
    PastTurn,
    check_target,
    open_target,
)

AS_USER = Context()
ON_A_SERVER = Context(http_allow=(), open_mode=True)


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as running:
        yield running


def spec_of(server: OpenAiServer, model: str, **settings: Any) -> TargetSpec:
    given = {"url": server.url, "model": model, "prompt": "Translate: {{text}}", **settings}
    return TargetSpec("openai", {name: value for name, value in given.items() if value is not None})


def ask(
    server: OpenAiServer,
    model: str,
    turn: dict[str, Any] | None = None,
    history: tuple[PastTurn, ...] = (),
    *,
    context: Context = AS_USER,
    **settings: Any,
) -> Output:
    given = {"text": "hello"} if turn is None else turn

    async def main() -> Output:
        spec = spec_of(server, model, **settings)
        check_target(spec, list(given), context)
        target = open_target(spec, context)
        try:
            return await target.call(given, history)
        finally:
            await target.close()

    return asyncio.run(main())


# --- asking -----------------------------------------------------------------------------------


def test_a_chat_model_is_asked_with_the_filled_prompt_and_its_tokens_are_priced(
    server: OpenAiServer,
) -> None:
    output = ask(
        server,
        "echo",
        {"text": "hello", "tone": "kind"},
        system="Be {{tone}}.",
        temperature=0.5,
        max_tokens=9,
        seed=4,
        extra={"top_p": 0.5},
        price={"input": 2.0, "output": 10.0},
    )

    assert output.columns == {"output": "Translate: hello", "finish_reason": "stop"}
    assert output.tokens == 15
    assert output.cost == pytest.approx((10 * 2.0 + 5 * 10.0) / 1_000_000)
    assert output.latency_ms is not None
    assert output.first_token_ms is None
    [asked] = server.asked
    assert asked.path == "/v1/chat/completions"
    assert "authorization" not in asked.headers
    assert asked.body == {
        "model": "echo",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Translate: hello"},
        ],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 4,
        "top_p": 0.5,
    }


def test_without_a_price_the_cost_is_not_known(server: OpenAiServer) -> None:
    assert ask(server, "echo").cost is None


def test_the_turns_before_are_the_conversation_so_far(server: OpenAiServer) -> None:
    past = PastTurn({"text": "one"}, Output({"output": "uno"}))

    ask(server, "echo", {"text": "two"}, (past,), prompt="{{text}}")

    assert [(m["role"], m["content"]) for m in server.asked[0].body["messages"]] == [
        ("user", "one"),
        ("assistant", "uno"),
        ("user", "two"),
    ]


def test_a_prompt_is_completed(server: OpenAiServer) -> None:
    output = ask(server, "echo", api="completions")

    assert output.answer == "Translate: hello"
    assert server.asked[0].path == "/v1/completions"
    assert server.asked[0].body["prompt"] == "Translate: hello"


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_streamed_answer_is_put_together_and_counted(server: OpenAiServer, api: str) -> None:
    output = ask(server, "echo", {"text": "héllo 世界"}, api=api, stream=True)

    assert output.answer == "Translate: héllo 世界"
    assert output.tokens == 15
    assert output.columns["finish_reason"] == "stop"
    assert output.first_token_ms is not None
    assert output.latency_ms is not None
    assert output.first_token_ms <= output.latency_ms


def test_the_first_token_is_timed_apart_from_the_whole_answer(server: OpenAiServer) -> None:
    async def main() -> Output:
        target = open_target(spec_of(server, "late-stream", stream=True), AS_USER)
        call = asyncio.create_task(target.call({"text": "x"}, ()))
        await asyncio.to_thread(server.hanging.wait)
        await asyncio.sleep(0.05)  # the time that must lie between the two
        server.over.set()
        try:
            return await call
        finally:
            await target.close()

    output = asyncio.run(main())

    assert output.answer == "first last"
    assert output.first_token_ms is not None
    assert output.latency_ms is not None
    assert output.latency_ms - output.first_token_ms >= 50


def test_a_json_answer_is_an_object(server: OpenAiServer) -> None:
    assert ask(server, "json", json=True).answer == {"a": [1, 2]}
    assert server.asked[0].body["response_format"] == {"type": "json_object"}


def test_prose_is_no_json_answer(server: OpenAiServer) -> None:
    with pytest.raises(TargetError, match="asked for JSON and answered 'Translate: hello'"):
        ask(server, "echo", json=True)


# --- audio ------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["transcriptions", "translations"])
def test_a_recording_is_sent_and_its_text_read(server: OpenAiServer, api: str) -> None:
    sound = {"base64": base64.b64encode(b"la la").decode(), "format": "flac"}

    output = ask(
        server,
        "echo",
        {"sound": sound, "lang": "es"},
        api=api,
        prompt=None,
        audio="sound",
        language="{{lang}}",
        temperature=0.2,
        price={"input": 1.0, "output": 1.0},
    )

    assert output.answer == "heard la la"
    assert output.tokens == 10
    assert output.cost == pytest.approx(10 / 1_000_000)
    [asked] = server.asked
    assert asked.path == f"/v1/audio/{api}"
    assert asked.body == {
        "model": "echo",
        "response_format": "json",
        "language": "es",
        "temperature": "0.2",
        "file": b"la la",
        "filename": "audio.flac",
    }


def test_a_recording_is_read_from_a_file_whose_checksum_fits(
    server: OpenAiServer, tmp_path: Path
) -> None:
    file = tmp_path / "one.wav"
    file.write_bytes(b"do re mi")
    checksum = sha256(b"do re mi").hexdigest()
    how: dict[str, Any] = {"api": "transcriptions", "prompt": None, "audio": "sound"}

    for value in (str(file), {"file": str(file)}, {"file": str(file), "sha256": checksum}):
        assert ask(server, "echo", {"sound": value}, **how).answer == "heard do re mi"
    with pytest.raises(TargetError, match="checksum") as raised:
        ask(server, "echo", {"sound": {"file": str(file), "sha256": "0" * 64}}, **how)
    assert not raised.value.retryable


class Kept(dict[str, Any]):
    """A recording that the lab keeps: what the row says of it, and where it is."""

    path: Path


def test_a_server_reads_recordings_of_the_lab_and_no_file_that_a_row_names(
    server: OpenAiServer, tmp_path: Path
) -> None:
    (tmp_path / "own").write_bytes(b"own")
    kept = Kept(file="own.wav", sha256=sha256(b"own").hexdigest())
    kept.path = tmp_path / "own"
    how: dict[str, Any] = {"api": "transcriptions", "prompt": None, "audio": "sound"}

    own = ask(server, "echo", {"sound": kept}, context=ON_A_SERVER, **how)
    assert own.answer == "heard own"
    assert server.asked[0].body["filename"] == "own.wav"
    for name in ("own", str(tmp_path / "own"), "/etc/passwd", ""):
        for value in (name, {"file": name}, {"file": name, "path": name}):
            with pytest.raises(TargetError, match="recording in `sound` cannot be used"):
                ask(server, "echo", {"sound": value}, context=ON_A_SERVER, **how)
    assert len(server.asked) == 1


@pytest.mark.parametrize("value", [None, 3, [], {}, {"base64": "%%"}, {"file": 3}, "no-such.wav"])
def test_what_is_no_recording_is_refused_in_words(server: OpenAiServer, value: Any) -> None:
    with pytest.raises(TargetError, match="recording in `sound` cannot be used") as raised:
        ask(server, "echo", {"sound": value}, api="transcriptions", prompt=None, audio="sound")
    assert not raised.value.retryable


def test_a_text_is_spoken(server: OpenAiServer) -> None:
    output = ask(server, "echo", api="speech", prompt="{{text}}", voice="nova", format="wav")

    content = b"RIFFhello"
    assert output.answer == {
        "format": "wav",
        "bytes": len(content),
        "sha256": sha256(content).hexdigest(),
        "base64": base64.b64encode(content).decode(),
    }
    assert server.asked[0].body == {
        "model": "echo",
        "input": "hello",
        "voice": "nova",
        "response_format": "wav",
    }


# --- failing ----------------------------------------------------------------------------------


def test_a_rate_limit_tells_how_long_to_wait(server: OpenAiServer) -> None:
    with pytest.raises(CalledTooOften, match="429: Rate limit reached") as raised:
        ask(server, "busy")
    assert raised.value.retry_after_seconds == 7


@pytest.mark.parametrize(
    ("model", "message", "retryable"),
    [
        ("unknown", "answered 404: The model `unknown` does not exist", False),
        ("fails-twice", "answered 500: The server had an error", True),
        ("error-with-200", "answered with an error: out of memory", True),
        ("malformed", "not JSON", True),
        ("no-choices", "holds no text", False),
        ("silent-judge", "holds no text", False),
    ],
)
def test_a_failure_is_told_in_the_servers_own_words(
    server: OpenAiServer, model: str, message: str, retryable: bool
) -> None:
    with pytest.raises(TargetError, match=message) as raised:
        ask(server, model)
    assert raised.value.retryable is retryable


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("broken-stream", "ended its stream before the answer was complete"),
        ("failing-stream", "broke off its answer: the engine died"),
        ("malformed-stream", "not JSON: {broken"),
        ("endless-event", "an event of over 1,048,576 bytes"),
        ("fails-twice", "answered 500: The server had an error"),
    ],
)
def test_a_stream_that_breaks_off_is_no_answer(
    server: OpenAiServer, model: str, message: str
) -> None:
    with pytest.raises(TargetError, match=message) as raised:
        ask(server, model, stream=True)
    assert raised.value.retryable


def test_a_server_that_does_not_answer_is_given_up(server: OpenAiServer) -> None:
    with pytest.raises(TargetError, match=r"No whole answer within 0\.2 s"):
        ask(server, "hang", timeout_seconds=0.2)


# --- keys -------------------------------------------------------------------------------------


def test_the_key_is_sent_and_never_told(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-very-secret")
    with pytest.raises(TargetError) as raised:
        ask(server, "wrong-key", api_key_env="MODEL_KEY")
    assert raised.value.message == ("The target answered 401: Incorrect API key provided: ***")
    assert not raised.value.retryable
    assert server.asked[-1].headers["authorization"] == "Bearer sk-very-secret"


def test_a_key_in_a_header_of_another_name_is_sent_and_never_told(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-very-secret")
    with pytest.raises(TargetError) as raised:
        ask(server, "wrong-key", headers={"Authorization": "Bearer env:MODEL_KEY"})
    assert raised.value.message == "The target answered 401: Incorrect API key provided: ***"
    with pytest.raises(Forbidden, match="does not allow"):
        ask(server, "echo", context=ON_A_SERVER, headers={"api-key": "env:MODEL_KEY"})


def test_a_query_of_the_servers_address_goes_with_every_request(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-very-secret")
    url = f"{server.url}?api-version=1&key=env:MODEL_KEY"
    assert ask(server, "echo", url=url).answer
    assert server.asked[-1].query == "api-version=1&key=sk-very-secret"
    with pytest.raises(TargetError) as raised:
        ask(server, "wrong-key", url=url, headers={"Authorization": "Bearer env:MODEL_KEY"})
    assert "sk-very-secret" not in raised.value.message


def test_a_server_sends_its_variables_only_where_the_settings_say(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-1")
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    allowed = Context(http_allow=(), open_mode=True, key_env_allow=(f"MODEL_KEY@{server.host}",))

    assert ask(server, "echo", context=allowed, api_key_env="MODEL_KEY").answer
    with pytest.raises(Forbidden, match=r"DATABASE_PASSWORD@.* to lab\.key_env_allow"):
        ask(server, "echo", context=allowed, api_key_env="DATABASE_PASSWORD")
    with pytest.raises(Forbidden, match="does not allow"):
        ask(server, "echo", context=ON_A_SERVER, api_key_env="MODEL_KEY")
    with pytest.raises(Forbidden, match="does not allow"):
        ask(server, "echo", context=allowed, api_key_env="MODEL_KEY", url="https://evil.example/v1")


# --- what is refused before anything is asked -------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"prompt": None}, "target.prompt"),
        ({"api": "transcriptions"}, "target.audio"),
        ({"api": "speech", "stream": True}, "target.stream"),
        ({"api": "completions", "json": True}, "target.json"),
        ({"extra": {"model": "x"}}, "target.extra.model"),
        ({"api_key": "sk-1"}, "target.api_key"),
        ({"api_key_env": "sk-12-3"}, "target.api_key_env"),
        ({"api_key_env": "NO_SUCH_VARIABLE"}, "target.api_key_env"),
        ({"headers": {"bad name": "x"}}, "target.headers.bad name"),
        ({"headers": {"Authorization": "Bearer sk-1"}}, "target.headers.Authorization"),
        ({"headers": {"api-key": "abc"}}, "target.headers.api-key"),
        ({"url": "https://example.com/v1?api-key=abc"}, "target.url"),
        ({"url": "ftp://host"}, "target.url"),
        ({"price": {"input": -1}}, "target.price.input"),
        ({"temprature": 1}, "target.temprature"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(
    server: OpenAiServer, settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidMessage) as raised:
        ask(server, "echo", **settings)
    assert raised.value.details["field"] == field
    assert not server.asked


def test_a_column_that_is_not_there_is_refused(server: OpenAiServer) -> None:
    with pytest.raises(SchemaMismatch, match=r"`target\.prompt` uses the column `txt`"):
        ask(server, "echo", prompt="{{txt}}")


def test_private_addresses_are_refused_as_by_the_http_target(server: OpenAiServer) -> None:
    closed = Context(http_allow=(), open_mode=False)
    with pytest.raises(Forbidden, match="private"):
        ask(server, "echo", context=closed)
    with pytest.raises(TargetError, match="no address that experiments may call"):
        ask(server, "echo", context=closed, url=server.url.replace("127.0.0.1", "localhost"))
    assert not server.asked


def test_the_settings_are_described() -> None:
    schema = str(TARGETS.find("openai").schema())
    for name in ("url", "model", "api", "prompt", "system", "api_key_env", "price", "stream"):
        assert f"'{name}'" in schema
