"""Results that cannot be read as one object, and the attempts that they end."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import SubProtocol, salvage_result

NAMES = {"job_id": "j-1", "attempt_id": "a-1"}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "job_result", **NAMES, "success": True, **fields}


def refusal(data: bytes | str, sub: SubProtocol) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as refused:
        salvage_result(data, sub, InvalidMessage("it cannot be read"))
    return refused.value


def deep_json() -> str:
    return json.dumps(result())[:-1] + ', "extra": ' + '{"a":' * 5_000 + "1" + "}" * 5_001


def deep_msgpack() -> bytes:
    whole = msgspec.msgpack.encode(result(extra=None))
    return whole[:-1] + b"\x81\xa1a" * 5_000 + b"\x01"


@pytest.mark.parametrize(
    ("data", "sub"),
    [
        (deep_json(), SubProtocol.JSON),
        (json.dumps(result(text_translated="hola"))[:-5], SubProtocol.JSON),
        (json.dumps(result())[:-1] + ",}", SubProtocol.JSON),
        (deep_msgpack(), SubProtocol.MSGPACK),
        (msgspec.msgpack.encode(result(text_translated="hola"))[:-2], SubProtocol.MSGPACK),
    ],
)
def test_a_result_that_cannot_be_read_at_all_names_its_attempt(
    data: bytes | str, sub: SubProtocol
) -> None:
    details = refusal(data, sub).details
    assert {name: details.get(name) for name in NAMES} == NAMES
    assert details["type"] == "job_result"


@pytest.mark.parametrize("sub", SubProtocol)
def test_long_ids_are_found_too(sub: SubProtocol) -> None:
    names = {"job_id": "j-" + "1" * 40, "attempt_id": "a-" + "2" * 60}
    encode = msgspec.msgpack.encode if sub.binary else msgspec.json.encode
    data = encode(result(**names, text_translated="hola"))[:-2]
    details = refusal(data if sub.binary else data.decode(), sub).details
    assert {name: details.get(name) for name in names} == names


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({**result(), "type": "job_partial"})[:-1],
        json.dumps(result())[:-1] + ', "extra": {"attempt_id": "a-2"',
        json.dumps({**result(), "attempt_id": ""})[:-1],
        "{",
        "",
    ],
)
def test_an_attempt_that_is_not_sure_is_not_named(data: str) -> None:
    assert "attempt_id" not in refusal(data, SubProtocol.JSON).details
