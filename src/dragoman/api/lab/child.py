"""The lab's process as the live process sees it: started, watched, restarted, ended."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

import msgspec

from dragoman.api.lab.meeting_point import MeetingPoint
from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.observability import get_logger
from dragoman.settings import Settings

READY = b"ready\n"
"""What the child writes once it answers on the socket."""

COMMAND: Sequence[str] = (sys.executable, "-P", "-m", "dragoman.cli.lab_child")
"""With -P, files in the folder that the server was started in are not taken for modules."""

START_SECONDS = 30.0
"""How long the server's own start waits for the lab; after that it goes on without it."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
"""The pause before a child is replaced doubles from the first of these to the last."""

STEADY_SECONDS = 60.0
"""A child that lived so long was well; the next pause is a short one again."""

_STDERR = 2
_RETRY_AFTER_MS = 1_000

_log = get_logger(__name__)


class WayBack(msgspec.Struct, frozen=True):
    """How the lab's process reaches the server that started it, as a client of its fleet."""

    url: str = ""
    token: str | None = None

    def __repr__(self) -> str:
        return f"WayBack({self.url!r}, ***)"


NO_WAY_BACK = WayBack()


class LabChild:
    """The lab plane in a process of its own.

    Scoring text on the live plane's event loop would cost every speaker milliseconds. The child
    reads its settings from a pipe that stays open as long as this process lives: when the pipe
    ends, so does the child, whatever ended this process.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        command: Sequence[str] = COMMAND,
        way_back: WayBack = NO_WAY_BACK,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._command = command
        self._way_back = way_back
        self._meeting_point: MeetingPoint | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._answers = asyncio.Event()
        self._ending = False

    @property
    def pid(self) -> int | None:
        """The process that answers now, if one does."""
        return self._process.pid if self._process is not None else None

    @property
    def socket_path(self) -> str:
        """The lab's socket; refused while no process answers there."""
        if self._meeting_point is None or not self._answers.is_set():
            doing = "shutting down" if self._ending else "starting"
            raise DependencyDown(
                f"The lab is {doing}; try again in a moment.", retry_after_ms=_RETRY_AFTER_MS
            )
        return self._meeting_point.path

    async def check(self) -> None:
        """Raise what is wrong unless the lab answers; for the server's readiness."""
        _ = self.socket_path

    async def start(self) -> None:
        self._meeting_point = MeetingPoint(self._settings.server.data_dir)
        self._keeping = asyncio.create_task(self._keep_running(), name="the lab's process")
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._answers.wait()
        except TimeoutError:
            _log.warning("lab_not_ready", after_seconds=START_SECONDS)

    async def drain(self) -> None:
        """Stop the child; the next one takes up its items again."""
        self._ending = True
        self._answers.clear()
        process = self._process
        if process is not None:
            _close_pipe(process)
            await process.wait()

    async def stop(self) -> None:
        self._ending = True
        self._answers.clear()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._process is not None:
            await self._process.wait()
        if self._meeting_point is not None:
            self._meeting_point.close()
            self._meeting_point = None

    async def _keep_running(self) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            started_at = self._clock.monotonic()
            exit_code: int | None = None
            try:
                exit_code = await self._run_once()
            except OSError as error:
                _log.error("lab_process_not_started", error=error)
            if self._ending:
                return
            if self._clock.monotonic() - started_at >= STEADY_SECONDS:
                pause_seconds = FIRST_PAUSE_SECONDS
            _log.error("lab_process_ended", exit_code=exit_code, again_in_seconds=pause_seconds)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _run_once(self) -> int:
        assert self._meeting_point is not None
        listener = self._meeting_point.listener.fileno()
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            str(listener),
            stdin=PIPE,
            stdout=PIPE,
            stderr=_STDERR,
            pass_fds=(listener,),
            # Ctrl-C is for this process, which then ends the child in order.
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # Not as arguments or variables, where others could read the passwords.
            process.stdin.write(self._settings.model_dump_json().encode() + b"\n")
            process.stdin.write(msgspec.json.encode(self._way_back) + b"\n")
            if await process.stdout.readline() == READY and not self._ending:
                self._answers.set()
                _log.info("lab_ready", pid=process.pid)
            return await process.wait()
        finally:
            self._answers.clear()
            _close_pipe(process)


def _close_pipe(process: Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
