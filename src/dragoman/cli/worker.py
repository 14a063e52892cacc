"""``dragoman worker``: carries out items of experiments, here or on another machine."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from dragoman.api import opened_worker
from dragoman.cli.app import INTERRUPTED
from dragoman.collector import calm_collector, share_heaps
from dragoman.observability import configure_logging
from dragoman.settings import Settings, check_exposure, load_settings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def worker(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="F", help="Settings file (TOML); the server's own file will do."
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Items to work on at once.  [default: lab.max_item_concurrency]",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder with the audio of datasets.  [default: .dragoman]"
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Answer GET /metrics and /healthz on server.host at this port; 0 takes any free "
            "one.  [default: answer nowhere]",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="debug, info, warning or error.  [default: info]"),
    ] = None,
) -> None:
    """Carry out items of experiments until a signal stops it.

    Workers and servers meet in the database (store.database_url) and hear of work through
    lab.queue_url. SIGTERM, Ctrl-C and a closed terminal (SIGHUP) drain the worker: it takes no more
    items and ends when those in progress are done. A second SIGTERM or Ctrl-C hands them back at
    once, for others to carry out.
    """
    flags = {"server": {"data_dir": data_dir}, "log": {"level": log_level}}
    settings = load_settings(config, flags).settings
    if metrics_port is not None:
        check_exposure(settings)
    configure_logging(settings.log.level, settings.log.format)
    share_heaps()
    # httpx logs the address of every call, which may hold a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        finished = runner.run(_work(settings, concurrency, metrics_port))
    if not finished:
        sys.exit(INTERRUPTED)


async def _work(settings: Settings, concurrency: int | None, metrics_port: int | None) -> bool:
    """True when everything in progress was done, False when a second signal cut that short."""
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    # A terminal that closes may send several; nohup has it ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    async with opened_worker(settings, concurrency, metrics_port) as opened:
        calm_collector()
        at_once = concurrency or settings.lab.max_item_concurrency
        told = f"; metrics at {opened.metrics_url}/metrics" if opened.metrics_url else ""
        typer.echo(f"Worker is ready: {at_once} items at once{told}.")
        await stop.wait()
        with suppress(OSError):  # the terminal may have closed
            typer.echo("Worker takes no more items, and ends when those in progress are done.")
        draining = asyncio.create_task(opened.lab.drain())
        hurrying = asyncio.create_task(hurry.wait())
        done, _ = await asyncio.wait([draining, hurrying], return_when=asyncio.FIRST_COMPLETED)
        finished = draining in done
        for task in (draining, hurrying):
            task.cancel()
        await asyncio.gather(draining, hurrying, return_exceptions=True)
    return finished
