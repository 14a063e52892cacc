"""The evaluator process: calls one function after another, and ends with the lab.

It is started as a file, not as a module of this package: it imports msgspec and what it is asked to
call, and is ready in a moment. What the two sides say to each other is a length and MessagePack;
no pickles, a message is data.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import sys
from functools import cache, reduce
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any

import msgspec

LENGTH_BYTES = 4


class ChildCall(msgspec.Struct, frozen=True):
    """A function to call, ``module:function``, and its arguments by name."""

    function: str
    arguments: dict[str, Any]


class ChildAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What it returned, or what it raised."""

    value: Any = None
    error: str | None = None


def frame(message: ChildCall | ChildAnswer) -> bytes:
    """A message as it travels."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def content_length(head: bytes) -> int:
    """How long the message behind these first bytes is."""
    return int.from_bytes(head, "big")


def main(descriptor: int) -> None:
    """Answer the calls that come in on a socket, until the other side is gone."""
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    calls: SimpleQueue[ChildCall] = SimpleQueue()
    # A thread listens while a function computes, to notice that the lab has gone.
    Thread(target=_listen, args=(connection, calls), daemon=True).start()
    while True:
        connection.sendall(_framed(_answer(calls.get())))


def _listen(connection: socket.socket, calls: SimpleQueue[ChildCall]) -> None:
    decoder = msgspec.msgpack.Decoder(ChildCall)
    with connection.makefile("rb") as incoming:
        while head := incoming.read(LENGTH_BYTES):
            calls.put(decoder.decode(incoming.read(content_length(head))))
    os._exit(0)


def _answer(call: ChildCall) -> ChildAnswer:
    try:
        value = _function(call.function)(**call.arguments)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException as error:  # exit() too: a function must not end the process
        return ChildAnswer(error=f"{type(error).__name__}: {error}")
    return ChildAnswer(value)


def _framed(answer: ChildAnswer) -> bytes:
    try:
        return frame(answer)
    except (TypeError, ValueError, RecursionError) as error:
        return frame(ChildAnswer(error=f"it returned what cannot be sent: {error}"))


@cache
def _function(name: str) -> Any:
    module, _, path = name.partition(":")
    return reduce(getattr, path.split("."), import_module(module))


if __name__ == "__main__":
    # Modules are found in the same places as by the lab.
    sys.path[:] = json.loads(sys.argv[2])
    main(int(sys.argv[1]))
