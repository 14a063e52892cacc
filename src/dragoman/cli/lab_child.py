"""The lab's process. ``dragoman serve`` starts it; it has no command of its own.

It is given the listening socket as an argument, and on its standard input the settings and how to
reach the server, a line each. That input stays open as long as the server lives; its end is the
sign to stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from dragoman.cli.importing import keep_what_was_imported, no_search_for_cycles

with no_search_for_cycles():
    import msgspec
    import uvloop

    from dragoman.api import READY, WayBack, serve_lab
    from dragoman.collector import calm_collector, share_heaps
    from dragoman.observability import configure_logging
    from dragoman.settings import Settings

    if __name__ == "__main__":
        keep_what_was_imported()

GOODBYE_SECONDS = 5.0
"""How long an orderly end may take; the next process takes up what is not done by then."""

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def main() -> None:
    share_heaps()
    listener = socket.socket(fileno=int(sys.argv[1]))
    announce = _announcement()
    with open(_STDIN, "rb", buffering=0, closefd=False) as given:
        settings = Settings.model_validate_json(given.readline())
        way_back = msgspec.json.decode(given.readline(), type=WayBack)
    configure_logging(settings.log.level, settings.log.format)
    # httpx logs the address of every call, which may hold a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, way_back, listener, announce))


async def _serve(
    settings: Settings, way_back: WayBack, listener: socket.socket, announce: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)

    def when_the_server_ends() -> None:
        os.read(_STDIN, 1)
        loop.call_soon_threadsafe(stop.set)
        time.sleep(GOODBYE_SECONDS)
        os._exit(1)

    threading.Thread(target=when_the_server_ends, daemon=True).start()
    calm_collector()
    await serve_lab(settings, way_back, listener, announce, stop)


def _announcement() -> Callable[[], None]:
    """The function that tells the server that the lab is ready.

    Standard output is the server's alone: what users' functions print goes to standard error.
    """
    server = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)

    def announce() -> None:
        os.write(server, READY)
        os.close(server)

    return announce


if __name__ == "__main__":
    main()
