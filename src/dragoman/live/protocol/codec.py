"""Frames to messages and back, in both sub-protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from types import UnionType
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import problems
from dragoman.live.protocol.client_messages import (
    ClientToScheduler,
    SchedulerToClient,
    SchedulerToListener,
)
from dragoman.live.protocol.message import Message
from dragoman.live.protocol.node_messages import NodeToScheduler, SchedulerToNode
from dragoman.live.protocol.nulls import without_nulls

M = TypeVar("M", bound=msgspec.Struct)

_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""All that msgspec raises for data that is not what was asked for."""

NOT_PLAIN = (*_UNREADABLE, TypeError)
"""All that a `reader` raises; a TypeError is for a text frame where a binary one is expected."""


class SubProtocol(Enum):
    """How messages are written on a WebSocket; the value is the sub-protocol's name."""

    JSON = "dragoman.json.v1"
    MSGPACK = "dragoman.msgpack.v1"

    @property
    def binary(self) -> bool:
        """Whether frames are binary; JSON travels in text frames."""
        return self is SubProtocol.MSGPACK

    @classmethod
    def choose(cls, offered: Sequence[str]) -> SubProtocol | None:
        """The first known one a client offers; JSON for none offered; None for none known."""
        if not offered:
            return cls.JSON
        known = {sub.value: sub for sub in cls}
        return next((known[name] for name in offered if name in known), None)


class _Envelope(msgspec.Struct):
    """As much of a message as it takes to tell what it wanted to be."""

    type: Any = None


_write_json = msgspec.json.Encoder().encode
_write_msgpack = msgspec.msgpack.Encoder().encode


def encode(message: Message, sub: SubProtocol) -> bytes | str:
    """The frame for a message: text for JSON, because ASGI sends text frames as str."""
    try:
        return encoder(sub)(message)
    except UnicodeEncodeError as error:
        raise unencodable(message) from error


def encoder(sub: SubProtocol) -> Callable[[Message], bytes | str]:
    """What makes frames of one sub-protocol; a message with lone surrogates is a
    UnicodeEncodeError, for which `unencodable` has the words."""
    return _write_msgpack if sub is SubProtocol.MSGPACK else _write_json_text


def _write_json_text(message: Message) -> str:
    return _write_json(message).decode()


def unencodable(message: Message) -> InvalidMessage:
    """What is wrong with a message that has no frame."""
    name = type(message).__struct_config__.tag
    return InvalidMessage(
        f"the {name} holds text that is not valid Unicode; replace lone surrogates",
        details={"problem": problems.MessageProblem.BAD_FIELD.value, "type": name},
    )


class Decoder(Generic[M]):
    """Reads the messages of one direction. Raises InvalidMessage, and nothing else."""

    def __init__(self, messages: UnionType) -> None:
        self._structs: dict[str, type[M]] = {
            struct.__struct_config__.tag: struct for struct in get_args(messages)
        }
        self._read_json: Callable[[bytes | str], M] = msgspec.json.Decoder(messages).decode
        self._read_msgpack: Callable[[bytes], M] = msgspec.msgpack.Decoder(messages).decode

    @property
    def types(self) -> list[str]:
        """The types of message that may come this way."""
        return list(self._structs)

    def reader(self, sub: SubProtocol) -> Callable[[Any], M]:
        """What reads a frame that is as it should be; when it raises, `decode` says why."""
        return self._read_msgpack if sub is SubProtocol.MSGPACK else self._read_json

    def decode(self, data: bytes | str, sub: SubProtocol) -> M:
        """The message in a frame."""
        try:
            if sub is SubProtocol.JSON:
                return self._read_json(data)
            if isinstance(data, bytes):
                return self._read_msgpack(data)
        except _UNREADABLE as error:
            return self._decode_again(data, sub, error)
        raise problems.unparsable(f"{sub.value} uses binary frames, this is a text frame")

    def _decode_again(self, data: bytes | str, sub: SubProtocol, error: Exception) -> M:
        """Give a refused frame its second chance, or say what is wrong with it."""
        try:
            found = _read_any(data, sub, _Envelope).type
        except _UNREADABLE as unreadable:
            raise problems.unparsable(unreadable, b"" if sub.binary else data) from unreadable
        struct = self._structs.get(found) if isinstance(found, str) else None
        if struct is None:
            raise problems.unknown_type(found, self.types) from error
        return _read_without_nulls(data, sub, struct, error, found)


def decode_body(body: bytes, expected: type[M]) -> M:
    """The JSON body of a request. Raises InvalidMessage, and nothing else."""
    try:
        return msgspec.json.decode(body, type=expected)
    except _UNREADABLE as error:
        return _read_without_nulls(body, SubProtocol.JSON, expected, error)


def _read_without_nulls(
    data: bytes | str,
    sub: SubProtocol,
    expected: type[M],
    error: Exception,
    name: str | None = None,
) -> M:
    """Read once more what was refused with ``error``, taking optional nulls as absent."""
    if isinstance(error, msgspec.ValidationError) and _holds_null(data):
        try:
            return msgspec.convert(
                without_nulls(_read_any(data, sub, Any), expected),
                expected,
                # MessagePack carries bytes as they are; in JSON they are base64 text.
                builtin_types=(bytes,) if sub.binary else (),
            )
        except _UNREADABLE as still_unreadable:
            error = still_unreadable
    if not isinstance(error, msgspec.ValidationError):
        raise problems.unparsable(error, b"" if sub.binary else data) from error
    raise problems.refusal(error, expected, name) from error


def _read_any(data: bytes | str, sub: SubProtocol, expected: Any) -> Any:
    if sub.binary:
        assert isinstance(data, bytes)
        return msgspec.msgpack.decode(data, type=expected)
    return msgspec.json.decode(data, type=expected)


def _holds_null(data: bytes | str) -> bool:
    """Whether there may be a null; sure enough to skip the second reading of most bad frames."""
    return "null" in data if isinstance(data, str) else b"null" in data or b"\xc0" in data


FROM_NODE: Final[Decoder[NodeToScheduler]] = Decoder(NodeToScheduler)
TO_NODE: Final[Decoder[SchedulerToNode]] = Decoder(SchedulerToNode)
FROM_CLIENT: Final[Decoder[ClientToScheduler]] = Decoder(ClientToScheduler)
TO_CLIENT: Final[Decoder[SchedulerToClient]] = Decoder(SchedulerToClient)
TO_LISTENER: Final[Decoder[SchedulerToListener]] = Decoder(SchedulerToListener)
