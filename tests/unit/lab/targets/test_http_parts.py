"""The parts of an HTTP target that need no network: templates, paths, addresses, answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import Forbidden, InvalidMessage, SchemaMismatch
from dragoman.lab.failures import CalledTooOften, TargetError
from dragoman.lab.model import TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import check_target
from dragoman.lab.targets.http.answers import AnswerReading
from dragoman.lab.targets.http.json_path import JsonPath
from dragoman.lab.targets.http.settings import HttpTargetSettings
from dragoman.outbound import (
    AddressRules,
    HttpAnswer,
    filled,
    filled_url,
    places,
    retry_after_seconds,
)

NOW_MS = 1_700_000_000_000


def http(**settings: Any) -> TargetSpec:
    return TargetSpec("http", {"url": "https://example.com/", "output": "$.a", **settings})


def check(
    columns: tuple[str, ...] = ("text",), context: Context | None = None, **settings: Any
) -> None:
    check_target(http(**settings), columns, context or Context(http_allow=()))


# --- templates --------------------------------------------------------------------------------


def test_places_are_filled_wherever_text_stands() -> None:
    template: dict[str, Any] = {
        "a": "say {{text}} {{ n }}!",
        "b": ["{{n}}", {"c": "{{all}}"}],
        "d": 5,
        "{{n}}": None,
    }
    assert filled(template, {"text": 'x"{{n}}', "n": 3, "all": [1, 2]}) == {
        "a": 'say x"{{n}} 3!',
        "b": [3, {"c": [1, 2]}],
        "d": 5,
        "{{n}}": None,
    }
    assert set(places(template)) == {"text", "n", "all"}


def test_values_stay_in_their_place_in_an_address() -> None:
    url = filled_url("https://h/a/{{x}}?q={{x}}", {"x": "../b?c=d&e#f g/ü"})
    assert (
        url
        == "https://h/a/..%2Fb%3Fc%3Dd%26e%23f%20g%2F%C3%BC?q=..%2Fb%3Fc%3Dd%26e%23f%20g%2F%C3%BC"
    )


# --- paths ------------------------------------------------------------------------------------

ANSWER: dict[str, Any] = {"a": {"b": [{"c d": 1}, 2, None]}, "x-y": {"": 3}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", ANSWER),
        ("$.a.b[0]['c d']", 1),
        ('$["a"].b[-2]', 2),
        ("$.a.b[2]", None),
        ("$.x-y['']", 3),
    ],
)
def test_a_path_names_one_value(path: str, value: Any) -> None:
    assert JsonPath(path).value_in(ANSWER) == value


@pytest.mark.parametrize(
    "path", ["$.b", "$.a.b[3]", "$.a.b[-4]", "$.a[0]", "$.a.b.c", "$.a.b[2].c"]
)
def test_a_path_that_leads_nowhere_says_where_it_ends(path: str) -> None:
    with pytest.raises(LookupError, match="has no"):
        JsonPath(path).value_in(ANSWER)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        ".a",
        "$a",
        "$.",
        "$..a",
        "$.*",
        "$[*]",
        "$[",
        "$['a",
        "$.a b",
        "$[1:2]",
        "$[?(@.a)]",
    ],
)
def test_a_path_that_searches_or_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        JsonPath(path)


@given(
    st.lists(
        st.integers(-3, 3) | st.text(st.characters(exclude_characters="'"), max_size=4), max_size=5
    )
)
def test_any_way_into_an_answer_can_be_written(steps: list[int | str]) -> None:
    value: Any = "found"
    for step in reversed(steps):
        value = {step: value} if isinstance(step, str) else [value] * 4
    text = "$" + "".join(f"[{s}]" if isinstance(s, int) else f"['{s}']" for s in steps)
    assert JsonPath(text).value_in(value) == "found"


# --- addresses --------------------------------------------------------------------------------

PRIVATE = [
    "10.0.0.1",
    "172.16.5.5",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "::",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "fec0::1",
    "::a00:1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused_in_every_disguise(address: str) -> None:
    assert not AddressRules((), open_mode=True).permit("host", address)
    assert AddressRules(None, open_mode=False).permit("host", address), (
        "the user calls what they like"
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_for_open_mode(address: str) -> None:
    assert AddressRules((), open_mode=True).permit("host", address)
    assert not AddressRules((), open_mode=False).permit("host", address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_public_addresses_are_for_everyone(address: str) -> None:
    assert AddressRules((), open_mode=False).permit("host", address)


def test_the_settings_list_hosts_addresses_and_networks() -> None:
    rules = AddressRules(("models.internal", "10.1.0.0/16", "192.168.7.7", "fd00::/8"), False)
    assert rules.permit("Models.Internal.", "10.9.9.9")
    assert rules.permit("other", "10.1.2.3")
    assert rules.permit("other", "::ffff:10.1.2.3")
    assert rules.permit("other", "192.168.7.7")
    assert rules.permit("other", "fd12::1")
    assert not rules.permit("other", "10.2.0.1")
    assert not rules.permit("models.internal.evil.com", "10.9.9.9")


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"url": "ftp://example.com/"}, "target.url"),
        ({"url": "example.com"}, "target.url"),
        ({"url": "https://{{text}}/"}, "target.url"),
        ({"url": "https://user:pw@example.com/"}, "target.url"),
        ({"url": "https://"}, "target.url"),
        ({"url": "https://exa mple.com"}, "target.url"),
        ({"output": "a"}, "target.output"),
        ({"output": {}}, "target.output"),
        ({"output": {"x": "$.*"}}, "target.output.x"),
        ({"tokens": "usage"}, "target.tokens"),
        ({"cost": "$["}, "target.cost"),
        ({"method": "TRACE"}, "target.method"),
        ({"headers": {"a b": "c"}}, "target.headers.a b"),
        ({"headers": {"a": "b\r\nc: d"}}, "target.headers.a"),
        ({"headers": {"Authorization": "Bearer sk-1"}}, "target.headers.Authorization"),
        ({"headers": {"x-api-key": "k-1"}}, "target.headers.x-api-key"),
        ({"headers": {"api_key": "k-1"}}, "target.headers.api_key"),
        ({"headers": {"Cookie": "session=1"}}, "target.headers.Cookie"),
        ({"headers": {"Proxy-Authorization": "Basic eA=="}}, "target.headers.Proxy-Authorization"),
        ({"headers": {"X-Auth-Token": "t"}}, "target.headers.X-Auth-Token"),
        ({"headers": {"X-Any": "Bearer abc"}}, "target.headers.X-Any"),
        ({"headers": {"X-Any": "sk-abc"}}, "target.headers.X-Any"),
        ({"headers": {"Authorization": "Bearer xenv:PATH"}}, "target.headers.Authorization"),
        ({"url": "https://example.com/ask?api_key=k-1"}, "target.url"),
        ({"url": "https://example.com/ask?q={{text}}&key=k-1#there"}, "target.url"),
        ({"url": "https://example.com/ask?accessToken=t"}, "target.url"),
        ({"url": "https://example.com/ask?a=1;sig=abc"}, "target.url"),
        ({"url": "https://example.com/ask?api%5Fkey=k-1"}, "target.url"),
        ({"url": "https://example.com/ask?any=sk-abc"}, "target.url"),
        ({"url": "https://example.com/ask?key=xenv:PATH"}, "target.url"),
        ({"timeout_seconds": 0}, "target.timeout_seconds"),
        ({"boddy": 1}, "target.boddy"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        check(**settings)
    assert refused.value.details == {"field": field}


def test_a_secret_in_a_header_is_refused_with_the_remedy_and_not_repeated() -> None:
    with pytest.raises(InvalidMessage) as refused:
        check(headers={"Authorization": "Bearer sk-hidden"})
    assert "sk-hidden" not in refused.value.message
    assert '"Bearer env:NAME"' in refused.value.message


def test_a_secret_in_an_address_is_refused_with_the_remedy_and_not_repeated() -> None:
    with pytest.raises(InvalidMessage) as refused:
        check(url="https://example.com/ask?api_key=hidden")
    assert "hidden" not in refused.value.message
    assert '"api_key=env:NAME"' in refused.value.message


def test_a_query_that_carries_no_secret_is_sent_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "k")
    for query in (
        "",
        "q={{text}}",
        "token={{text}}",
        "api-version=1&max_tokens=5",
        "key=",
        "env:X",
    ):
        check(url=f"https://example.com/ask?{query}")
    check(context=Context(), url="https://example.com/ask?q={{text}}&key=env:A_KEY")
    with pytest.raises(InvalidMessage, match="NO_SUCH_VARIABLE, which is not set"):
        check(context=Context(), url="https://example.com/ask?key=env:NO_SUCH_VARIABLE")
    with pytest.raises(Forbidden, match=r'"A_KEY@example\.com" to lab\.key_env_allow'):
        check(
            context=Context(http_allow=(), key_env_allow=()),
            url="https://example.com/ask?key=env:A_KEY",
        )


def test_headers_that_carry_no_secret_are_sent_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "k")
    plain = {"X-Team": "blue", "Idempotency-Key": "7", "Accept": "application/json", "X-Max": "1"}
    check(headers=plain)
    own = Context()  # a user's own program, which may send what it likes
    check(context=own, headers={"X-Api-Key": "env:A_KEY", "Cookie": "session=env:A_KEY; theme=1"})
    for value in ("Bearer sk-1 env:A_KEY", "env:NO_SUCH_VARIABLE"):
        with pytest.raises(InvalidMessage):
            check(context=own, headers={"Authorization": value})
    with pytest.raises(Forbidden, match=r'"A_KEY@example\.com" to lab\.key_env_allow'):
        check(context=Context(http_allow=(), key_env_allow=()), headers={"X-Api-Key": "env:A_KEY"})


def test_a_column_that_the_dataset_does_not_have_is_named() -> None:
    with pytest.raises(SchemaMismatch) as refused:
        check(body={"q": ["{{text}} {{other}}"]})
    assert refused.value.details == {"field": "target.body", "column": "other"}
    with pytest.raises(SchemaMismatch):
        check(url="https://example.com/?q={{other}}")
    check(body={"q": "{{text}}", "before": "{{history}}"}, url="https://example.com/{{text}}")


@pytest.mark.parametrize("host", ["10.0.0.1", "[fe80::1]", "127.0.0.1", "[::ffff:a00:1]"])
def test_a_private_address_is_refused_before_anything_is_stored(host: str) -> None:
    with pytest.raises(Forbidden, match="http_allow"):
        check(url=f"http://{host}/")
    check(url=f"http://{host}/", context=Context(http_allow=None))


# --- answers ----------------------------------------------------------------------------------


def read(
    status: int, content: bytes = b"{}", headers: dict[str, str] | None = None, **settings: Any
) -> Any:
    form = HttpTargetSettings(url="http://h/", **{"output": "$.a", **settings})
    return AnswerReading(form).output(HttpAnswer(status, headers or {}, content), 12.0, NOW_MS)


def test_outputs_tokens_and_cost_are_read_from_the_answer() -> None:
    content = b'{"a": "yes", "u": {"t": 7, "c": 0.25}}'
    output = read(200, content, tokens="$.u.t", cost="$.u.c")
    assert (output.answer, output.tokens, output.cost, output.latency_ms) == ("yes", 7, 0.25, 12.0)
    several = read(201, content, output={"first": "$.a", "all": "$"})
    assert (several.main, several.columns["first"]) == ("first", "yes")


@pytest.mark.parametrize(
    ("status", "content", "retryable"),
    [
        (200, b"not json", True),
        (200, b"\xff", True),
        (200, b'{"b": 1}', True),
        (200, b'{"a": "x", "t": "many"}', True),
        (500, b"oops", True),
        (503, b"", True),
        (408, b"", True),
        (400, b"bad", False),
        (401, b"", False),
        (404, b"", False),
        (301, b"", False),
    ],
)
def test_other_answers_are_failures(status: int, content: bytes, retryable: bool) -> None:
    with pytest.raises(TargetError) as failed:
        read(status, content, tokens="$.t")
    assert failed.value.retryable is retryable


def test_a_servers_whole_error_page_is_not_kept() -> None:
    with pytest.raises(TargetError) as failed:
        read(500, b"x" * 1_000_000)
    assert len(failed.value.message) < 500


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "7"}, 7.0),
        (429, {"retry-after": "0.5"}, 0.5),
        (429, {"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        (429, {}, None),
        (429, {"retry-after": "soon"}, None),
        (429, {"retry-after": "-3"}, None),
        (429, {"retry-after": "nan"}, None),
        (429, {"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        (429, {"retry-after": "Tue, 14 Nov 2000 22:13:50 GMT"}, 0.0),
        (503, {"retry-after": "3"}, 3.0),
    ],
)
def test_a_server_that_is_out_of_breath_is_no_failure(
    status: int, headers: dict[str, str], seconds: float | None
) -> None:
    with pytest.raises(CalledTooOften) as refused:
        read(status, b"slow down", headers)
    assert refused.value.retry_after_seconds == seconds


@given(st.text(max_size=30))
def test_any_header_is_a_time_or_none(text: str) -> None:
    seconds = retry_after_seconds({"retry-after": text}, NOW_MS)
    assert seconds is None or seconds >= 0
