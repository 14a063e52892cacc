"""Snippets: what they score, and that hostile ones reach nothing and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.lab.evaluators import FunctionProcessPool, Score, check_evaluator, open_evaluator
from dragoman.lab.evaluators.code import child, sandbox
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output

PATIENCE_SECONDS = 60.0


def processes(of: int | None = None) -> list[int]:
    """The processes of snippets that a lab has now: of this program, if no other is named."""
    owner = f"of-{of or os.getpid()}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if {str(child.__file__).encode(), owner} <= set(command.split(b"\0")):
                found.append(int(folder.name))
    return found


def until_none_is_left(of: int | None = None) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while (left := processes(of)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not left


def spec_of(code: str, **settings: Any) -> EvaluatorSpec:
    return EvaluatorSpec("code", "code", settings={"code": textwrap.dedent(code), **settings})


async def scored(code: str, values: dict[str, Any], **settings: Any) -> Score | EvaluatorFailure:
    pool = FunctionProcessPool(2)
    spec = spec_of(code, **settings)
    check_evaluator(spec, list(values), Context(python_allow=(), http_allow=()))
    evaluator = open_evaluator(spec, Context(), pool)
    try:
        return await evaluator.score(values, Output({"output": values.get("output")}))
    except EvaluatorFailure as error:
        return error
    finally:
        await evaluator.close()
        await pool.close()


def score(code: str, **values: Any) -> Score:
    said = asyncio.run(scored(code, values))
    assert isinstance(said, Score), said
    return said


def failure(code: str, **settings: Any) -> str:
    """What is wrong with a snippet; nothing of it may be left."""
    said = asyncio.run(scored(code, {"output": "x"}, **settings))
    assert isinstance(said, EvaluatorFailure), said
    assert not said.retryable
    assert not processes()
    return said.message


# --- scoring ----------------------------------------------------------------------------------


def test_an_expression_is_the_score() -> None:
    assert score("len(output) < 10", output="short").score == 1.0
    assert score("output.count(word) / 2", output="a b a", word="a").score == 1.0


def test_a_function_takes_columns_by_name_and_may_import() -> None:
    said = score(
        """
        import json
        from statistics import fmean

        def score(output, reference, unused=3):
            return {"score": fmean(json.loads(output)), "label": reference, "reason": "mean"}
        """,
        output="[1, 2, 3]",
        reference="fine",
        other="x",
    )
    assert (said.score, said.label, said.reason) == (2.0, "fine", "mean")


def test_numbers_of_installed_libraries_are_scores() -> None:
    assert score("__import__('numpy').mean([len(output), 3])", output="x").score == 2.0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero (line 1)"),
        ("def score(output):\n    x = 1\n    raise ValueError('no')", "ValueError: no (line 3)"),
        ("x = 1", "it defines no function `score`"),
        ("def score(missing): return 1", "`score` takes `missing`; there are output"),
        ("nothing", "NameError: name 'nothing' is not defined (line 1)"),
        ("exit(3)", "NameError"),
        ("__import__('sys').exit(3)", "SystemExit: 3"),
        ("object()", "it returned what is no score: a object"),
        ("[1]", "returned no score"),
        ("float('nan')", "it returned what is no score"),
        ("'x' * (1 << 20)", "it returned over 1,048,576 bytes"),
        ("def score(output): return score(output)", "RecursionError"),
    ],
)
def test_a_snippet_that_fails_says_where(code: str, message: str) -> None:
    assert message in failure(code)


def test_what_a_failing_snippet_printed_is_told() -> None:
    told = failure("def score(output):\n    print('looking at', output)\n    return 1 / 0")
    assert told.endswith("(line 3); it printed: …looking at x.")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def score(:", "it is not Python (SyntaxError: invalid syntax (line 1))"),
        ("x = (", "was never closed"),
        ("-" * 40_000 + "1", "it is not Python"),
        ("a" + ".a" * 20_000, "it is not Python"),
        ("#" * 60_000, "over 50,000 characters"),
        ("\0", "null bytes"),
    ],
)
def test_what_is_no_python_is_refused_before_it_runs(code: str, message: str) -> None:
    with pytest.raises(InvalidMessage) as raised:
        check_evaluator(spec_of(code), [], Context())
    assert message in raised.value.message
    assert raised.value.details["field"] == "evaluator.code"


# --- hostile ----------------------------------------------------------------------------------

HOSTILE = {
    "loops": ("def score(output):\n    while True: pass", "took longer than 1 s"),
    "loops and catches everything": (
        """
        def score(output):
            while True:
                try:
                    while True: pass
                except BaseException: pass
        """,
        "took longer than 1 s",
    ),
    "sleeps": ("__import__('time').sleep(1000)", "took longer than 1 s"),
    "ignores signals": (
        """
        import signal, time
        def score(output):
            for number in range(1, 65):
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
            time.sleep(1000)
        """,
        "took longer than 1 s",
    ),
    "leaves its session and its parent": (
        """
        import ctypes, os, time
        def score(output):
            os.setsid()
            ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
            time.sleep(1000)
        """,
        "took longer than 1 s",
    ),
    "allocates": ("'x' * (1 << 40)", "MemoryError"),
    "allocates bit by bit": (
        """
        def score(output):
            held = []
            while True:
                held.append("x" * 1_000_000)
        """,
        "MemoryError",
    ),
    "allocates in files": (
        """
        import os
        def score(output):
            file = os.memfd_create("x")
            os.write(file, b"x" * 4096)
        """,
        "SIGXFSZ|File too large|EFBIG",
    ),
    "allocates shared memory": (
        """
        import ctypes
        def score(output):
            libc = ctypes.CDLL(None, use_errno=True)
            found = libc.shmget(0, ctypes.c_size_t(1 << 30), 0o1600)
            raise ValueError(f"shmget {found}")
        """,
        "shmget -1",
    ),
    "forks": (
        """
        import os
        def score(output):
            while True:
                os.fork()
        """,
        "BlockingIOError",
    ),
    "starts threads": (
        """
        import threading, time
        def score(output):
            while True:
                threading.Thread(target=time.sleep, args=(1000,)).start()
        """,
        "can't start new thread",
    ),
    "starts programs": ("__import__('subprocess').run(['/bin/sh', '-c', 'id'])", "Error"),
    "executes": ("__import__('os').execv('/usr/bin/id', ['id'])", "FileNotFoundError"),
    "opens sockets to the world": (
        "__import__('socket').create_connection(('192.0.2.1', 80), 0.5)",
        "Network is unreachable",
    ),
    "opens sockets to this machine": (
        "__import__('socket').create_connection(('127.0.0.1', {port}), 0.5)",
        "Network is unreachable",
    ),
    "asks name servers": (
        "__import__('socket').getaddrinfo('example.com', 80)",
        "gaierror",
    ),
    "reads passwords": ("open('/etc/shadow').read()", "FileNotFoundError"),
    "reads the process table": ("open('/proc/1/environ').read()", "FileNotFoundError"),
    "reads the lab's files": ("open({file!r}).read()", "FileNotFoundError"),
    "lists the lab's folder": ("__import__('os').listdir({folder!r})", "FileNotFoundError"),
    "writes": ("open('/mine', 'w')", "Read-only file system"),
    "writes into libraries": (
        "open(__import__('os').__file__, 'a')",
        "Read-only file system|Permission denied",
    ),
    "kills its parent": (
        """
        import os, signal
        def score(output):
            os.kill(os.getppid(), signal.SIGKILL)
            raise ValueError(f"still here, {os.getppid()}")
        """,
        "still here, 1",
    ),
    "kills everything": ("__import__('os').kill(-1, 9)", "ProcessLookupError"),
    "kills the lab": ("__import__('os').kill({pid}, 9)", "ProcessLookupError"),
    "kills itself": ("__import__('os').kill(__import__('os').getpid(), 9)", "SIGKILL"),
    "crashes": ("__import__('ctypes').string_at(0)", "SIGSEGV"),
    "aborts": ("__import__('os').abort()", "SIGABRT"),
    "leaves at once": ("__import__('os')._exit(0)", "ended without an answer"),
    "prints for ever": (
        """
        def score(output):
            while True:
                print("x" * 1_000_000)
        """,
        "printed more than 65,536 bytes",
    ),
    "prints gigabytes to stderr": (
        """
        import os
        def score(output):
            while True:
                os.write(2, b"x" * 1_000_000)
        """,
        "printed more than 65,536 bytes",
    ),
    "writes into its answer": (
        """
        import os
        def score(output):
            for number in range(3, 64):
                try: os.write(number, b"nonsense")
                except OSError: pass
            return 1
        """,
        "which is no JSON now",
    ),
    "writes an endless answer": (
        """
        import os
        def score(output):
            while True:
                for number in range(3, 64):
                    try: os.write(number, b"x" * 100_000)
                    except OSError: pass
        """,
        "answered with over 1,048,576 bytes",
    ),
    "changes its user": ("__import__('os').setuid(0)", "PermissionError|OSError"),
    "mounts": (
        """
        import ctypes, os
        def score(output):
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.mount(b"none", b"/", b"tmpfs", 0, None):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        """,
        "Operation not permitted",
    ),
    "makes namespaces": (
        """
        import ctypes, os
        def score(output):
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(0x10000000):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        """,
        "No space left on device",
    ),
    "traces process 1": (
        """
        import ctypes, os
        def score(output):
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.ptrace(16, 1, 0, 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        """,
        "Operation not permitted",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_snippet_that_is_hostile_is_an_error_and_nothing_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SECRET", "hunter2")
    secret = tmp_path / "lab.db"
    secret.write_text("hunter2")
    code, message = HOSTILE[name]
    code = textwrap.dedent(code)
    for place, value in (
        ("{port}", "9"),
        ("{pid}", str(os.getpid())),
        ("{file!r}", repr(str(secret))),
        ("{folder!r}", repr(str(tmp_path))),
    ):
        code = code.replace(place, value)
    told = failure(code, timeout_seconds=1 if "took longer" in message else 20)
    assert any(part in told for part in message.split("|")), told
    assert "hunter2" not in told


def test_the_environment_and_the_descriptors_hold_nothing_of_the_lab(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAGOMAN_SECRET", "hunter2")
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        said = score(
            """
            import os
            def score(output):
                held = []
                for number in range(256):
                    try: os.fstat(number)
                    except OSError: continue
                    held.append(number)
                names = sorted(os.environ)
                return {"score": len(held), "label": ",".join(names), "reason": str(os.getuid())}
            """,
            output="x",
        )
    assert said.score == 4, "input, output, errors, and the answer"
    assert said.label == "LC_CTYPE,MKL_NUM_THREADS,OMP_NUM_THREADS,OPENBLAS_NUM_THREADS"
    assert said.reason == "65534"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give it the rights of another user")
def test_a_snippet_of_roots_lab_is_another_user_for_the_kernel_too() -> None:
    async def story() -> None:
        code = "__import__('time').sleep(1000)"
        running = asyncio.create_task(scored(code, {}, timeout_seconds=30))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "65534" not in {_user_of(pid) for pid in processes()}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
    until_none_is_left()


def test_a_cancelled_snippet_is_gone_when_the_cancelling_is_over() -> None:
    async def story() -> None:
        code = "__import__('time').sleep(1000)"
        running = asyncio.create_task(scored(code, {}, timeout_seconds=30))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(processes()) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not processes()

    asyncio.run(story())


def test_hostile_snippets_do_not_disturb_others() -> None:
    async def story() -> list[Score | EvaluatorFailure]:
        hostile = [
            scored("def score(output):\n    while True: print('x' * 9999)", {}),
            scored("__import__('os').kill(-1, 9)", {}),
            scored("'x' * (1 << 40)", {}),
            scored("__import__('ctypes').string_at(0)", {}),
        ]
        good = [scored("len(output)", {"output": "x" * n}) for n in range(8)]
        return await asyncio.gather(*hostile, *good)

    said = asyncio.run(story())
    assert all(isinstance(one, EvaluatorFailure) for one in said[:4])
    assert [one.score for one in said[4:] if isinstance(one, Score)] == list(range(8))
    assert not processes()


def test_the_snippet_ends_with_a_lab_that_is_killed() -> None:
    program = textwrap.dedent(
        """
        import asyncio
        from dragoman.lab.evaluators.code.sandbox import SandboxLimits, run_snippet
        print("ready", flush=True)
        code = "__import__('time').sleep(1000)"
        asyncio.run(run_snippet(code, {}, SandboxLimits(600, 256 << 20)))
        """
    )
    lab = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert lab.stdout is not None
        assert lab.stdout.readline() == b"ready\n"
        until = time.monotonic() + PATIENCE_SECONDS
        while len(processes(lab.pid)) < 3 and time.monotonic() < until:
            time.sleep(0.02)
        assert len(processes(lab.pid)) >= 3
    finally:
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        if lab.stdout is not None:
            lab.stdout.close()
    until_none_is_left(lab.pid)


# --- where it cannot be had -------------------------------------------------------------------


def test_snippets_are_refused_with_the_reason_where_there_are_no_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "python"
    # As on a machine that allows no user namespaces: the limit is inherited by what it starts.
    wrapper.write_text(
        "#!/bin/sh\n"
        "exec unshare --user --map-root-user sh -c 'echo 0 > /proc/sys/user/max_user_namespaces; "
        f'exec {sys.executable} "$@"\' sh "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(wrapper))
    sandbox.check_snippet.cache_clear()
    try:
        with pytest.raises(Forbidden, match=r"could not be shut in: unshare: ") as raised:
            check_evaluator(spec_of("1"), [], Context())
        assert raised.value.details["field"] == "evaluator.kind"
    finally:
        sandbox.check_snippet.cache_clear()


def _user_of(pid: int) -> str:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    return next(line.split()[1] for line in lines if line.startswith("Uid:"))
