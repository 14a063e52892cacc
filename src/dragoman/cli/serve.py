"""``dragoman serve``: one server, from its ready line to the end of its drain."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from dragoman.api import Assemble, Server, all_parts, running_server
from dragoman.cli.app import INTERRUPTED
from dragoman.cli.self_signed import self_signed as make_self_signed
from dragoman.collector import calm_collector, share_heaps
from dragoman.errors import SettingsError
from dragoman.observability import configure_logging
from dragoman.settings import Settings, check_exposure, load_settings

_THIS_MACHINE_ONLY = ("127.0.0.1", "::1", "localhost")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Company = Callable[[Server], AbstractAsyncContextManager[None]]
"""What runs beside a server in the same process, from before it is announced until it drains."""


@asynccontextmanager
async def no_company(server: Server) -> AsyncIterator[None]:
    """Runs nothing beside the server."""
    yield


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="F", help="Settings file (TOML).")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Name or address to listen on.  [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Port to listen on; 0 takes any free one.  [default: 8080]"
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for all of the server's data.  [default: .dragoman]"
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="debug, info, warning or error.  [default: info]"),
    ] = None,
    self_signed: Annotated[
        bool,
        typer.Option(
            "--self-signed",
            help="HTTPS with a certificate of the server's own making: browsers on other devices "
            "give their microphone to no plain HTTP.",
        ),
    ] = False,
) -> None:
    """Run the scheduler and its API until a signal stops it.

    Prints its address when it is ready. SIGTERM, Ctrl-C and a closed terminal (SIGHUP) drain the
    server: it takes no new work and gives running work server.drain_seconds to end. A second
    SIGTERM or Ctrl-C stops it at once.
    """
    flags = {
        "server": {"host": host, "port": port, "data_dir": data_dir},
        "log": {"level": log_level},
    }
    loaded = load_settings(config, flags)
    settings, sources = loaded.settings, dict(loaded.sources)
    if self_signed:
        settings = with_own_certificate(settings)
        sources |= dict.fromkeys(("server.tls_cert", "server.tls_key"), "flag --self-signed")
    run_until_stopped(settings, sources=sources)


def with_own_certificate(settings: Settings) -> Settings:
    """The settings of a server that signs its certificate itself; the user is told of it."""
    server = settings.server
    if server.tls_cert:
        raise SettingsError(
            f"server.tls_cert = {server.tls_cert!r} is the server's certificate already; leave "
            "--self-signed out, or the setting."
        )
    made = make_self_signed(server.data_dir / "tls", server.host)
    typer.echo(
        f"HTTPS with a certificate of its own for {', '.join(made.names)}.\n"
        f"Browsers warn once; compare its SHA-256 fingerprint, then go on: {made.fingerprint}\n"
        f"For clients and nodes: SSL_CERT_FILE={made.certificate}"
    )
    if server.host in _THIS_MACHINE_ONLY:
        typer.echo("Other devices cannot reach it yet: listen with --host 0.0.0.0.")
    tls = {"tls_cert": str(made.certificate), "tls_key": str(made.key)}
    return settings.model_copy(update={"server": server.model_copy(update=tls)})


def announce(server: Server) -> None:
    """Tell the user where the server is."""
    host = server.services.settings.server.host
    elsewhere = "" if host in server.url else f" (listening on {host})"
    typer.echo(f"Dragoman is ready at {server.url}{elsewhere}")


def run_until_stopped(
    settings: Settings,
    *,
    assemble: Assemble = all_parts,
    company: Company = no_company,
    on_ready: Callable[[Server], None] = announce,
    seconds: float | None = None,
    sources: Mapping[str, str] | None = None,
) -> None:
    """Run a server on an event loop of its own until a signal, or the time given, ends it."""
    check_exposure(settings)
    # One thread serves; the few others wait for databases and names.
    share_heaps(most=2)
    configure_logging(settings.log.level, settings.log.format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        finished = runner.run(_serve(settings, assemble, company, on_ready, seconds, sources))
    if not finished:
        sys.exit(INTERRUPTED)


async def _serve(
    settings: Settings,
    assemble: Assemble,
    company: Company,
    on_ready: Callable[[Server], None],
    seconds: float | None,
    sources: Mapping[str, str] | None,
) -> bool:
    """True when the server ended in order, False when a signal cut its drain short."""
    stop, ready = asyncio.Event(), asyncio.Event()
    try:
        with _signals(stop, ready):
            async with (
                running_server(settings, assemble=assemble, sources=sources) as server,
                company(server),
            ):
                calm_collector()
                on_ready(server)
                ready.set()
                await _until(stop, server, seconds)
    except asyncio.CancelledError:
        return not ready.is_set()
    return True


@contextmanager
def _signals(stop: asyncio.Event, ready: asyncio.Event) -> Iterator[None]:
    """The first signal stops a ready server, the second cancels the caller, a third kills it.

    The first signal cancels a server that is still starting, which may wait for another one. A
    terminal that closes may send several signals: only the first of them counts.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def let_go() -> None:
        for number in (*_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)

    def on_hang_up() -> None:
        if not stop.is_set():
            on_signal()

    def on_signal() -> None:
        if ready.is_set() and not stop.is_set():
            stop.set()
        else:
            let_go()
            task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    # nohup has it ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, on_hang_up)
    try:
        yield
    finally:
        let_go()


async def _until(stop: asyncio.Event, server: Server, seconds: float | None) -> None:
    """Wait for the signal, the end of the time, or a server that ended by itself."""
    waits = [asyncio.create_task(stop.wait()), asyncio.create_task(server.failed())]
    try:
        done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in done:
            wait.result()
    finally:
        for wait in waits:
            wait.cancel()
