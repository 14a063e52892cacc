"""HTTP targets against a real server: what is asked, what is understood, what is refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.lab_targets.answering_server import AnsweringServer

from dragoman.lab.failures import CalledTooOften, TargetError
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output, PastTurn
from dragoman.lab.targets.http import HttpTarget, HttpTargetSettings
from dragoman.outbound import look_up

AS_USER = Context()
ON_A_SERVER = Context(http_allow=(), open_mode=False)


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with AnsweringServer() as running:
        yield running


def ask(
    url: str,
    turn: dict[str, Any] | None = None,
    history: tuple[PastTurn, ...] = (),
    *,
    context: Context = AS_USER,
    lookup: Any = look_up,
    **settings: Any,
) -> Output:
    async def main() -> Output:
        form = HttpTargetSettings(
            url=url, **{"output": "$.echo", "body": {"q": "{{text}}"}, **settings}
        )
        target = HttpTarget(form, context, lookup)
        try:
            return await target.call(turn or {"text": "hello"}, history)
        finally:
            await target.close()

    return asyncio.run(main())


# --- asking -----------------------------------------------------------------------------------


def test_the_body_is_filled_and_the_output_found(server: AnsweringServer) -> None:
    output = ask(
        server.url("echo"),
        {"text": 'say "hi"', "n": 3},
        body={"messages": [{"content": "Please {{text}}"}], "n": "{{n}}"},
        output={"said": "$.echo.messages[0].content", "n": "$.echo.n"},
        tokens="$.usage.tokens",
        cost="$.usage.cost",
        headers={"X-Team": "blue"},
    )
    assert output.columns == {"said": 'Please say "hi"', "n": 3}
    assert (output.answer, output.tokens, output.cost) == ('Please say "hi"', 7, 0.5)
    assert output.latency_ms is not None
    assert output.latency_ms > 0
    (request,) = server.requests
    assert request.method == "POST"
    assert request.headers["x-team"] == "blue"
    assert request.headers["content-type"] == "application/json"


def test_a_header_takes_its_secret_from_the_environment_and_no_message_tells_it(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "very-secret")
    headers = {"Authorization": "Bearer env:MODEL_KEY", "X-Api-Key": "env:MODEL_KEY"}
    ask(server.url("echo"), {"text": "hi"}, body="{{text}}", headers=headers)
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer very-secret"
    assert request.headers["x-api-key"] == "very-secret"

    with pytest.raises(TargetError) as raised:  # a server that repeats what it was sent
        ask(
            server.url("echo"),
            {"text": "very-secret"},
            body="{{text}}",
            headers=headers,
            output="$.no",
        )
    assert "very-secret" not in raised.value.message
    assert "***" in raised.value.message


def test_an_address_takes_its_secret_from_the_environment_and_no_message_tells_it(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "very secret&{{text}}")
    url = server.url("echo?q={{text}}&key=env:MODEL_KEY;again=env:MODEL_KEY")
    ask(url, {"text": "hi"}, body="{{text}}")
    (request,) = server.requests
    sent = "very%20secret%26%7B%7Btext%7D%7D"
    assert request.path == f"/echo?q=hi&key={sent};again={sent}"

    for repeated in ("very secret&{{text}}", sent):
        with pytest.raises(TargetError) as raised:  # a server that repeats what it was sent
            ask(url, {"text": repeated}, body="{{text}}", output="$.no")
        assert "secret" not in raised.value.message
        assert "***" in raised.value.message


def test_a_key_in_an_address_that_was_renewed_asks_the_same_question(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    for key in ("old", "new"):
        monkeypatch.setenv("MODEL_KEY", key)
        settings = HttpTargetSettings(server.url("echo?key=env:MODEL_KEY"), "$.text")
        target = HttpTarget(settings, Context())
        asked.append(asyncio.run(target.asked({"text": "hi"}, ())))
    assert asked[0] == asked[1]
    assert "env:MODEL_KEY" in str(asked[0])


def test_the_turns_before_can_be_sent_along(server: AnsweringServer) -> None:
    past = PastTurn({"text": "a"}, Output({"output": "b"}))
    output = ask(server.url("echo"), {"text": "c"}, (past,), body="{{history}}")
    assert output.answer == [{"turn": {"text": "a"}, "output": "b"}]


def test_a_question_may_stand_in_the_address(server: AnsweringServer) -> None:
    ask(server.url("echo/{{text}}?q={{text}}"), {"text": "a b/ü"}, method="GET", body=None)
    (request,) = server.requests
    assert (request.method, request.body) == ("GET", None)
    assert request.path == "/echo/a%20b%2F%C3%BC?q=a%20b%2F%C3%BC"


def test_a_connection_is_used_again(server: AnsweringServer) -> None:
    looked_up: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    async def main() -> None:
        form = HttpTargetSettings(
            url=server.url("echo", "models.invalid"), output="$.echo", body="{{text}}"
        )
        target = HttpTarget(form, AS_USER, lookup)
        for number in range(20):
            assert (await target.call({"text": number}, ())).answer == number
        await target.close()

    asyncio.run(main())
    assert looked_up == ["models.invalid"]


def test_a_turn_without_a_column_is_not_asked_about(server: AnsweringServer) -> None:
    with pytest.raises(TargetError, match="no column `text`") as failed:
        ask(server.url("echo"), {"other": 1})
    assert not failed.value.retryable
    assert server.requests == []


# --- answers ----------------------------------------------------------------------------------


def test_a_server_that_asks_for_a_pause_is_given_one(server: AnsweringServer) -> None:
    with pytest.raises(CalledTooOften, match="slow down") as refused:
        ask(server.url("busy"))
    assert refused.value.retry_after_seconds == 3


def test_a_redirect_is_not_followed(server: AnsweringServer) -> None:
    with pytest.raises(TargetError, match=r"redirect \(307\)") as failed:
        ask(server.url("redirect"))
    assert not failed.value.retryable
    assert [request.path for request in server.requests] == ["/redirect"]


@pytest.mark.parametrize(
    ("path", "says", "retryable"),
    [
        ("packed", "compressed", True),
        ("huge", "over 16,777,216 bytes", False),
        ("hang_up", "No answer", True),
        ("drip", "No whole answer within 0.3 s", True),
        ("hang", "No whole answer within 0.3 s", True),
    ],
)
def test_a_server_is_trusted_with_neither_time_nor_size(
    server: AnsweringServer, path: str, says: str, retryable: bool
) -> None:
    seconds = 0.3 if "within" in says else 60
    with pytest.raises(TargetError, match=says) as failed:
        ask(server.url(path), timeout_seconds=seconds)
    assert failed.value.retryable is retryable


def test_a_server_that_is_not_there_may_come_back() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(TargetError, match="No answer") as failed:
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}/")
    assert failed.value.retryable


def test_a_call_is_given_up_at_once(server: AnsweringServer) -> None:
    async def main() -> None:
        target = HttpTarget(HttpTargetSettings(url=server.url("hang"), output="$"), AS_USER)
        work = asyncio.create_task(target.call({}, ()))
        await asyncio.to_thread(server.connected.wait, 30)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await target.close()

    asyncio.run(main())


# --- where it may go --------------------------------------------------------------------------


def resolving(*addresses: str) -> Any:
    async def lookup(host: str, port: int) -> list[str]:
        return list(addresses)

    return lookup


def test_a_name_that_leads_to_a_private_address_is_refused(server: AnsweringServer) -> None:
    with pytest.raises(TargetError, match=r"models.example has no address.*http_allow"):
        ask(
            server.url("echo", "models.example"),
            context=ON_A_SERVER,
            lookup=resolving("127.0.0.1"),
        )
    assert server.requests == []


def test_on_a_server_no_failure_tells_what_a_name_stands_for(server: AnsweringServer) -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    def failure(lookup: Any, **settings: Any) -> TargetError:
        with pytest.raises(TargetError) as failed:
            ask(server.url("echo", "db.internal"), lookup=lookup, **settings)
        return failed.value

    private = failure(resolving("10.1.2.3"), context=ON_A_SERVER)
    missing = failure(unknown, context=ON_A_SERVER)
    assert (str(private), private.retryable) == (str(missing), missing.retryable)
    # Known to the operator, who lists it, and still nothing to be told to others.
    listed = Context(http_allow=("db.internal",))
    silent = failure(resolving("127.0.0.2"), context=listed)
    for failed in (private, missing, silent):
        assert "10.1.2.3" not in str(failed)
        assert "127.0.0.2" not in str(failed)


def test_the_address_that_was_judged_is_the_one_that_is_called(server: AnsweringServer) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def changing(host: str, port: int) -> list[str]:
        return next(answers)

    # The name itself leads nowhere: only the judged address can have been called.
    open_mode = Context(http_allow=(), open_mode=True)
    output = ask(server.url("echo", "rebind.invalid"), context=open_mode, lookup=changing)
    assert output.answer == {"q": "hello"}
    assert server.requests[0].headers["host"] == f"rebind.invalid:{server.port}"
    assert next(answers) == ["10.0.0.1"], "nobody looked the name up a second time"


def test_of_several_addresses_only_the_permitted_ones_are_tried(server: AnsweringServer) -> None:
    context = Context(http_allow=("127.0.0.1",))
    url = server.url("echo", "several.invalid")
    ask(url, context=context, lookup=resolving("10.0.0.1", "127.0.0.1"))
    assert len(server.requests) == 1
    # 127.0.0.2 is there, but nobody listens: the next one is tried.
    ask(url, lookup=resolving("127.0.0.2", "127.0.0.1"))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "context",
    [Context(http_allow=("127.0.0.0/8",)), Context(http_allow=("localhost", "127.0.0.1")), AS_USER],
)
def test_what_the_settings_list_may_be_called(server: AnsweringServer, context: Context) -> None:
    ask(server.url("echo"), context=context)
    assert len(server.requests) == 1


def test_an_unknown_name_is_told() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(TargetError, match=r"gone.invalid was not found") as failed:
        ask("http://gone.invalid/", lookup=unknown)
    assert failed.value.retryable
