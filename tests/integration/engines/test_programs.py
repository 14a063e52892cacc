"""Programs that hang, die, write too much or leave children behind harm neither job nor node."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.integration.serve.server_process import eventually

from dragoman.engines.programs import ProgramOutput, run_program
from dragoman.sdk import JobFailed, ModelMissing

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [
    asyncio.new_event_loop,
    uvloop.new_event_loop,
]
"""A node runs on the second; a program of its owner may run it on the first."""


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    def running(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(work)

    return running


Run = Callable[[Coroutine[Any, Any, Any]], Any]


def shell(
    script: str, *, seconds: float = 30.0, **options: Any
) -> Coroutine[Any, Any, ProgramOutput]:
    return run_program(
        ["/bin/sh", "-c", script], service_id="test", timeout_seconds=seconds, **options
    )


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def has_ended(pid: int) -> bool:
    return not is_running(pid)


def test_input_and_output_are_those_of_a_shell_also_by_name(run: Run) -> None:
    output = run(
        shell("cat /dev/stdin > /dev/stdout; echo why > /dev/stderr", stdin=b"x" * 300_000)
    )
    assert output == ProgramOutput(b"x" * 300_000, b"why\n")


def test_a_program_that_does_not_read_its_input_is_none_the_worse(run: Run) -> None:
    assert run(shell("echo done", stdin=b"x" * 10_000_000)).stdout == b"done\n"
    assert run(shell("cat")).stdout == b""


def test_the_environment_and_the_folder_are_passed_on(run: Run, tmp_path: Path) -> None:
    output = run(shell("echo $WORD; pwd", cwd=tmp_path, environment={"WORD": "yes"}))
    assert output.stdout.decode().split() == ["yes", str(tmp_path)]


def test_a_program_that_hangs_is_ended_with_all_that_it_started(run: Run, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ > {pids}; wait"
    with pytest.raises(JobFailed, match=r"/bin/sh did not end within 0\.5 seconds") as caught:
        run(shell(script, seconds=0.5))
    assert caught.value.error.retryable
    for pid in pids.read_text().split():
        eventually(partial(has_ended, int(pid)), f"process {pid} ended")


def test_a_job_that_is_cancelled_leaves_nothing_running(run: Run, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def scenario() -> None:
        working = asyncio.create_task(shell(f"sleep 1000 & echo $! > {pids}; wait"))
        while not (pids.exists() and pids.read_text()):  # noqa: ASYNC110 - another process writes
            await asyncio.sleep(0.01)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    run(scenario())
    eventually(lambda: not is_running(int(pids.read_text())), "the child of the program ended")


def test_a_job_that_is_cancelled_while_its_program_starts_leaves_nothing_running(
    run: Run, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    marked = f"sleep 1000 & echo $! $$ >> {pids}; wait"

    async def scenario() -> None:
        for turns in range(12):  # at each step of the start
            working = asyncio.create_task(shell(marked))
            for _ in range(turns):
                await asyncio.sleep(0)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working

    run(scenario())
    left = pids.read_text().split() if pids.exists() else []
    for pid in left:
        eventually(partial(has_ended, int(pid)), f"process {pid} ended")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo first >&2; echo the voice is gone. >&2; exit 3", "ended with 3: the voice is gone."),
        ("exit 1", "ended with 1."),
        ("kill -SEGV $$", "was ended by SIGSEGV"),
        ("head -c 2000 /dev/zero", "wrote more than 1,000 bytes"),
        ("yes", "wrote more than 1,000 bytes"),
    ],
)
def test_a_program_that_dies_or_writes_too_much_fails_the_job(
    run: Run, script: str, says: str
) -> None:
    with pytest.raises(JobFailed, match=says) as caught:
        run(shell(script, max_output_bytes=1000))
    assert caught.value.error.code == "ENGINE_FAILED"


def test_of_long_complaints_the_end_is_kept(run: Run) -> None:
    with pytest.raises(JobFailed, match="the last line"):
        run(shell("yes no | head -c 1000000 >&2; echo the last line >&2; exit 1"))


@pytest.mark.parametrize("command", ["no-such-program", "/etc", "a\0b"])
def test_a_program_that_cannot_be_started_is_a_model_that_is_not_available(
    run: Run, command: str
) -> None:
    with pytest.raises(ModelMissing, match="cannot be started"):
        run(run_program([command], service_id="test", timeout_seconds=5))


def test_many_programs_leave_no_file_open() -> None:
    async def scenario() -> int:
        await asyncio.gather(*(shell("cat", stdin=b"x") for _ in range(5)))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(4):
            await asyncio.gather(*(shell("cat", stdin=b"x") for _ in range(5)))
            with pytest.raises(ModelMissing):
                await run_program(["no-such-program"], service_id="test", timeout_seconds=5)
        await asyncio.sleep(0)
        return len(os.listdir("/proc/self/fd")) - before

    assert asyncio.run(scenario()) <= 0
