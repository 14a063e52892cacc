"""A server that can be looked into: `python -m benchmarks.profiling.served OUT serve ...`.

SIGUSR1 begins to count calls, SIGUSR2 to take samples of the stack; SIGALRM ends either and writes
what was found to OUT. The commands after OUT are those of `dragoman`.
"""

from __future__ import annotations

import inspect
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SAMPLE_SECONDS = 0.001
"""Of CPU time, from one sample to the next."""


class Looker:
    """Counts calls of Python functions, or takes samples, in the thread of the event loop."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._calls: Counter[CodeType] = Counter()
        self._stacks: Counter[tuple[CodeType, ...]] = Counter()

    def install(self) -> None:
        signal.signal(signal.SIGUSR1, self._count)
        signal.signal(signal.SIGUSR2, self._sample)
        signal.signal(signal.SIGALRM, self._end)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self._calls.clear()
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._calls[frame.f_code] += 1

    def _sample(self, number: int, frame: FrameType | None) -> None:
        self._stacks.clear()
        signal.signal(signal.SIGPROF, self._sampled)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    def _sampled(self, number: int, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            stack.append(frame.f_code)
            frame = frame.f_back
        self._stacks[tuple(reversed(stack))] += 1

    def _end(self, number: int, frame: FrameType | None) -> None:
        sys.setprofile(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        found = {
            "calls": [
                (_place(code), count, bool(code.co_flags & inspect.CO_COROUTINE))
                for code, count in self._calls.items()
            ],
            "stacks": [
                ([_place(code) for code in stack], count) for stack, count in self._stacks.items()
            ],
        }
        partial = self._out.with_suffix(".partial")
        partial.write_text(json.dumps(found))
        partial.rename(self._out)


def _place(code: CodeType) -> tuple[str, str]:
    """Module and function, as a reader of the source would name them."""
    path = code.co_filename
    for root in ("/site-packages/", "/src/", "/lib/python"):
        _, found, rest = path.rpartition(root)
        if found:
            path = rest.partition("/")[2] if root == "/lib/python" else rest
            break
    return path.removesuffix(".py").replace("/", "."), code.co_qualname


def main() -> None:
    Looker(Path(sys.argv[1])).install()
    sys.argv = ["dragoman", *sys.argv[2:]]
    from dragoman.cli.app import main as dragoman

    dragoman()


if __name__ == "__main__":
    main()
