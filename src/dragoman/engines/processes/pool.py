"""A few processes, each of which answers one request after the other."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.engines.processes.frames import LENGTH_BYTES, frame, length_of
from dragoman.engines.programs import PROGRAM_FAILED, end_process, start_process
from dragoman.sdk import JobFailed, ModelMissing

_CHILD = "dragoman.engines.processes.child"
_START_SECONDS = 120.0


class ProcessPool:
    """Calls a function in one of `size` processes; a call that is given up ends its process.

    `opener` names a function as module:function. Each process calls it once, with `settings`; what
    it returns is called with each request.
    """

    def __init__(self, opener: str, settings: Mapping[str, Any], size: int, who: str) -> None:
        """`who` is the service id, which errors name."""
        self._opener = opener
        self._settings = dict(settings)
        self._who = who
        self._size = size
        self._started: set[Process] = set()
        # None stands for a process that is still to be started.
        self._idle: asyncio.LifoQueue[Process | None] = asyncio.LifoQueue()
        for _ in range(size):
            self._idle.put_nowait(None)

    async def warm_up(self) -> None:
        """Start every process, and wait until each is ready."""
        idle = [self._idle.get_nowait() for _ in range(self._size)]
        started = await asyncio.gather(
            *(self._start() for process in idle if process is None), return_exceptions=True
        )
        for one in [*idle, *started]:
            if isinstance(one, Process):
                self._idle.put_nowait(one)
        for one in started:
            if isinstance(one, BaseException):
                self._idle.put_nowait(None)
        for one in started:
            if isinstance(one, BaseException):
                raise one

    async def call(self, request: Any, timeout_seconds: float) -> Any:
        """What the function answers; JobFailed when it fails, dies or takes too long."""
        process = await self._idle.get()
        answered = False
        try:
            if process is None or process.returncode is not None:
                process = await self._start()
            async with asyncio.timeout(timeout_seconds):
                answer = await _exchange(process, request)
            answered = True
        except TimeoutError:
            raise JobFailed(
                PROGRAM_FAILED, f"{self._who} did not answer within {timeout_seconds:.1f} seconds."
            ) from None
        except (EOFError, OSError) as error:
            raise JobFailed(
                PROGRAM_FAILED, f"The process of {self._who} ended during a job ({error})."
            ) from None
        finally:
            if not answered and process is not None:
                # It may still be at work on this request, or be broken.
                await self._end(process)
                process = None
            self._idle.put_nowait(process)
        if "error" in answer:
            raise JobFailed(PROGRAM_FAILED, f"{self._who} failed: {answer['error']}")
        return answer["answer"]

    async def close(self) -> None:
        """End every process, also one whose start was given up."""
        for process in tuple(self._started):
            await self._end(process)

    async def _start(self) -> Process:
        # In a group of its own: Ctrl-C is for the node, which lets running jobs finish.
        process = await start_process(
            *(sys.executable, "-P", "-m", _CHILD, self._opener, json.dumps(sys.path)),
            stdin=PIPE,
            stdout=PIPE,
        )
        self._started.add(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                answer = await _exchange(process, self._settings)
        except (TimeoutError, EOFError, OSError):
            await self._end(process)
            raise ModelMissing(self._who, "its process does not start") from None
        except BaseException:
            await self._end(process)
            raise
        if "error" in answer:
            await self._end(process)
            raise ModelMissing(self._who, str(answer["error"]))
        return process

    async def _end(self, process: Process) -> None:
        await end_process(process)
        if process.stdin is not None:
            process.stdin.close()
        self._started.discard(process)


async def _exchange(process: Process, request: Any) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(frame(request))
    await process.stdin.drain()
    try:
        head = await process.stdout.readexactly(LENGTH_BYTES)
        content = await process.stdout.readexactly(length_of(head))
    except asyncio.IncompleteReadError:
        raise EOFError("it closed its output") from None
    answer: dict[str, Any] = msgspec.msgpack.decode(content)
    return answer
