"""A server with work that ends only when a file appears: ``python busy_server.py --port 0 ...``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman.api import Parts, Services
from dragoman.cli.serve import run_until_stopped
from dragoman.settings import load_settings


class Busy:
    """A plane whose drain lasts until its work is done, which is when the file appears."""

    def __init__(self, done: Path) -> None:
        self._done = done

    async def start(self) -> None:
        return None

    async def drain(self) -> None:
        while not self._done.exists():  # noqa: ASYNC110 (another process makes the file)
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        return None


def busy_parts(services: Services) -> Parts:
    return Parts(planes=[Busy(services.settings.server.data_dir / "done")])


if __name__ == "__main__":
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    flags = {"server": {"port": options["--port"], "data_dir": options["--data-dir"]}}
    run_until_stopped(load_settings(None, flags).settings, assemble=busy_parts)
