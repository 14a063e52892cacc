"""Starting a coroutine right here, without a task, for as long as it need not wait."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any


def begin(work: Coroutine[Any, Any, None]) -> Awaitable[None] | None:
    """Run a coroutine up to where it waits; the rest of it, or None when it came to its end.

    What runs here runs in no task of its own: it must not use `asyncio.timeout` before it waits.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    return _Rest(work, waits_for)


class _Rest:
    """The rest of a coroutine that was begun by hand."""

    __slots__ = ("_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    answer = yield waits_for
                except GeneratorExit:
                    raise
                except BaseException as error:
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(answer)
        except StopIteration:
            return
        finally:
            self._work.close()
