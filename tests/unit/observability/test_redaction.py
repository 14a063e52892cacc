"""Keys, tokens and what people say never reach a log."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.observability.log_output import logging_to

from dragoman.observability import LogFormat, get_logger, redact_text

KEY = "dgm_Zx81-kQ_4vT9wPq3LmN0"
SPOKEN = "meet me at the harbour at nine"

SECRET_NAMES = [
    *("token", "resume_token", "registration_token", "accessToken", "key", "api_key", "X-Api-Key"),
    *("APIKey", "Authorization", "authorization", "password", "client_secret", "cookie"),
    *("audio", "tts_audio", "text", "text_asr", "text_translated", "payload", "body", "tokens"),
]

harmless = st.none() | st.booleans() | st.integers() | st.text("abc xyz", max_size=8)
plain_names = st.sampled_from(["node_id", "job", "a", "b", "reasons"])
secret_leaf = st.tuples(st.sampled_from(SECRET_NAMES), st.just(SPOKEN) | st.just([SPOKEN])).map(
    lambda pair: {pair[0]: pair[1]}
)
telling_leaf = st.sampled_from(
    [
        KEY,
        f"GET /ws/session?token={KEY[4:]}&x=1",
        f"Authorization: Bearer {KEY[4:]}",
        f'{{"registration_token": "{KEY[4:]}"}}',
        KEY.encode(),
        bytearray(SPOKEN.encode()),
        SPOKEN.encode(),
    ]
)
values = st.recursive(
    harmless | secret_leaf | telling_leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_names, inner, max_size=3),
    max_leaves=12,
)
levels = st.sampled_from(["debug", "info", "warning", "error", "exception"])
formats: st.SearchStrategy[LogFormat] = st.sampled_from(["console", "json"])


def assert_nothing_leaked(written: str) -> None:
    assert KEY[4:] not in written
    assert SPOKEN not in written


@given(st.dictionaries(plain_names | st.sampled_from(SECRET_NAMES), values), levels, formats)
def test_no_secret_is_written_at_any_level_in_any_nesting(
    fields: dict[str, Any], level: str, log_format: LogFormat
) -> None:
    with logging_to("debug", log_format) as output:
        getattr(get_logger("dragoman.test"), level)("something", **fields)

    assert len(output.lines) >= 1
    assert_nothing_leaked(output.text)


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.ERROR])
@pytest.mark.parametrize("log_format", ["console", "json"])
def test_records_of_other_libraries_are_cleaned(level: int, log_format: LogFormat) -> None:
    # Not uvicorn itself, which a server that was set up in this process keeps below warnings.
    library = logging.getLogger("some_library.server")
    with logging_to("debug", log_format) as output:
        library.log(level, '%s - "WebSocket %s" [accepted]', "1.2.3.4", f"/ws/node?token={KEY[4:]}")
        library.log(level, "header %s: %s", "authorization", f"Basic {KEY[4:]}")
        library.log(level, "frame %r of %d bytes", SPOKEN.encode(), 30)
        library.log(level, "frame %(data)r", {"data": SPOKEN.encode()})
        library.log(level, f"connecting to redis://user:{KEY[4:]}@db:6379")

    assert len(output.lines) == 5
    assert "1.2.3.4" in output.text
    assert_nothing_leaked(output.text)


def test_tracebacks_are_cleaned() -> None:
    with logging_to("info", "json") as output:
        try:
            raise RuntimeError(f"refused: token={KEY[4:]}")
        except RuntimeError as error:
            get_logger("dragoman").exception("refused", error=error)

    assert "RuntimeError" in output.text
    assert_nothing_leaked(output.text)


def test_a_wrong_format_string_of_a_library_costs_no_line() -> None:
    with logging_to("info", "json") as output:
        logging.getLogger("library").warning("%d things", "many")

    assert output.objects[0]["event"] == "%d things"


class Assign(msgspec.Struct):
    job_id: str
    text: str
    audio: bytes


@dataclasses.dataclass
class Login:
    user: str
    password: str


class Opaque:
    def __repr__(self) -> str:
        return SPOKEN


def test_objects_are_written_field_by_field_and_unknown_ones_only_named() -> None:
    with logging_to("info", "json") as output:
        get_logger("dragoman").info(
            "objects",
            assign=Assign(job_id="j-1", text=SPOKEN, audio=SPOKEN.encode()),
            login=Login(user="ada", password=KEY),
            opaque=Opaque(),
        )

    (event,) = output.objects
    assert event["assign"] == {"job_id": "j-1", "text": "***", "audio": "***"}
    assert event["login"] == {"user": "ada", "password": "***"}
    assert event["opaque"] == "<Opaque>"


def test_what_only_counts_or_names_a_secret_is_written() -> None:
    with logging_to("info", "json") as output:
        get_logger("dragoman").info(
            "usage", tokens=512, audio_bytes=4096, key_id="k-1", audio_format="pcm16", context="x"
        )

    (event,) = output.objects
    assert event["tokens"] == 512
    assert event["audio_bytes"] == 4096
    assert event["key_id"] == "k-1"
    assert event["audio_format"] == "pcm16"
    assert event["context"] == "x"


def test_huge_and_endless_values_are_cut() -> None:
    endless: list[object] = []
    endless.append(endless)
    with logging_to("info", "json") as output:
        get_logger("dragoman").info("big", many=list(range(10_000)), long="x" * 100_000, a=endless)

    assert len(output.text) < 10_000


@given(st.text())
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once
