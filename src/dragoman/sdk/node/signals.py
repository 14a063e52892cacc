"""How a process that is a node ends: politely at the first signal, at once at the second."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Serves(Protocol):
    """Something that works until it is told to leave."""

    async def serve(self) -> None: ...

    def leave(self, reason: str | None = None) -> None: ...


async def serve_until_signalled(node: Serves) -> bool:
    """Serve; True when the node left in order, False when a second signal cut it short."""
    serving = asyncio.create_task(node.serve())
    with _on_signals(node, serving):
        await asyncio.wait([serving])
    if serving.cancelled():
        return False
    serving.result()
    return True


@contextmanager
def _on_signals(node: Serves, serving: asyncio.Task[None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    loop = asyncio.get_running_loop()
    signals_heard = 0

    def on_signal(number: signal.Signals) -> None:
        nonlocal signals_heard
        signals_heard += 1
        if signals_heard == 1:
            node.leave(number.name)
        else:
            serving.cancel()

    def on_hang_up() -> None:
        # A terminal that closes may send several.
        if signals_heard == 0:
            on_signal(signal.SIGHUP)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    # nohup has it ignored, and the program around the node may use it for something else.
    hears_hang_up = signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    if hears_hang_up:
        loop.add_signal_handler(signal.SIGHUP, on_hang_up)
    try:
        yield
    finally:
        for number in (*_SIGNALS, signal.SIGHUP) if hears_hang_up else _SIGNALS:
            loop.remove_signal_handler(number)
