"""The process that a pool starts: ``python -P -m ...child module:function paths``.

It finds modules where the pool's process does, and not in the folder that it was started in. It
ends when its input does, so it does not outlive its node.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO

import msgspec

from dragoman.engines.processes.frames import LENGTH_BYTES, frame, length_of


def main(opener: str) -> None:
    """Open the function, say so, and answer requests until there are no more."""
    # Models and their libraries print what they like: only frames go to the pool.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    settings = _next(requests)
    if settings is None:
        return
    try:
        module, _, name = opener.partition(":")
        function = getattr(import_module(module), name)(**settings)
    except Exception as error:
        out.write(frame({"error": f"{type(error).__name__}: {error}"}))
        return
    out.write(frame({"answer": "ready"}))
    while (request := _next(requests)) is not None:
        out.write(frame(_answer(function, request)))


def _answer(function: Callable[[Any], Any], request: Any) -> dict[str, Any]:
    try:
        return {"answer": function(request)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _next(requests: BinaryIO) -> Any:
    head = requests.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    return msgspec.msgpack.decode(requests.read(length_of(head)))


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])
    main(sys.argv[1])
