"""The lab's process from inside: a lab on the server's database, answering on its socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from dragoman.api.http import HttpServer
from dragoman.api.lab.app import create_lab_app
from dragoman.api.lab.desk import LabDesk
from dragoman.clock import Clock, SystemClock
from dragoman.ids import new_id
from dragoman.lab.annotations import Annotations
from dragoman.lab.audio import audio_folder_of
from dragoman.lab.comparison import Comparisons
from dragoman.lab.evaluators import ProcessPool
from dragoman.lab.library import Library
from dragoman.lab.live_sample import LiveSample, sample_evaluators
from dragoman.lab.mirror import Following, forget_mirror, is_wanted
from dragoman.lab.owners import new_owner
from dragoman.lab.plane import Lab
from dragoman.lab.results import Results
from dragoman.lab.targets import Context
from dragoman.live.budget import Budget
from dragoman.observability import Metrics, get_logger
from dragoman.randomness import Randomness
from dragoman.settings import Settings
from dragoman.store import Store, open_store

ANSWER_SECONDS = 2
"""How long requests that are being answered may take once the lab stops."""

_log = get_logger(__name__)


async def serve_lab(
    settings: Settings,
    listener: socket.socket,
    announce: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Answer on the socket until told to stop; `announce` is called once that can be relied on."""
    metrics = Metrics()
    context = Context(
        settings.lab.python_allow,
        settings.lab.http_allow,
        settings.auth.mode == "open",
        settings.lab.key_env_allow,
    )
    async with opened_desk(settings, context, metrics, embedded=False) as desk:
        budget = Budget(settings.limits.buffered_bytes)
        http = HttpServer(create_lab_app(desk, metrics), _between_processes(settings), budget)
        serving = asyncio.create_task(http.serve([listener]), name="http")
        await http.settled.wait()
        announce()
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([stopping, serving], return_when=asyncio.FIRST_COMPLETED)
        _log.info("lab_stopping")
        stopping.cancel()
        http.finish(ANSWER_SECONDS)
        await serving


@asynccontextmanager
async def opened_desk(
    settings: Settings,
    context: Context,
    metrics: Metrics,
    *,
    embedded: bool,
    mirrored: bool | None = None,
) -> AsyncIterator[LabDesk]:
    """A lab at work on the database of the settings, which is up to date; stopped at the end.

    The lab inside a program or a command is soon over: the database answers it, unless it is
    `mirrored` all the same.
    """
    mirrored = not embedded if mirrored is None else mirrored
    clock, randomness = SystemClock(), Randomness()
    audio_folder = audio_folder_of(settings.server.data_dir)
    context = replace(context, audio_folder=audio_folder)
    processes = ProcessPool(1)
    try:
        async with (
            await open_store(settings.store.database_url) as store,
            _followed(settings if mirrored else None, store, clock, randomness, metrics) as mirror,
            Lab(
                store,
                settings.lab,
                clock,
                randomness,
                metrics,
                context=context,
                embedded=embedded,
            ) as lab,
            AsyncExitStack() as stack,
        ):
            results = Results(store, mirror)
            live_sample = LiveSample(
                lab.experiments,
                results,
                lab.feed,
                metrics,
                sample_evaluators(settings.lab.live_sample.evaluators),
            )
            stack.push_async_callback(live_sample.close)
            yield LabDesk(
                lab=lab,
                library=Library(
                    store,
                    settings.lab,
                    clock,
                    randomness.stream("datasets"),
                    audio_folder=audio_folder,
                ),
                results=results,
                annotations=Annotations(store, clock, randomness.stream("annotations")),
                comparisons=Comparisons(store),
                context=context,
                live_sample=live_sample,
                processes=processes,
                mirror=mirror,
            )
    finally:
        await processes.close()


@asynccontextmanager
async def _followed(
    settings: Settings | None,
    store: Store,
    clock: Clock,
    randomness: Randomness,
    metrics: Metrics,
) -> AsyncIterator[Following | None]:
    """The mirror of the settings, kept up to date; None where there is to be none."""
    if settings is None:
        yield None
        return
    random = randomness.stream("mirror")
    owner = new_owner(random)
    if not is_wanted(settings.lab.analytics_url):
        await forget_mirror(store, owner)
        yield None
        return
    following = Following(
        store,
        settings.lab.analytics_url,
        owner=owner,
        mirror_id=new_id(random, "m"),
        clock=clock,
        metrics=metrics,
    )
    await following.start()
    try:
        yield following
    finally:
        await following.stop()


def _between_processes(settings: Settings) -> Settings:
    """The settings without what concerns callers from outside: TLS, proxies and deadlines."""
    server = {"tls_cert": "", "tls_key": "", "trusted_proxies": ()}
    limits = {"request_header_seconds": 0, "request_body_seconds": 0}
    return settings.model_copy(
        update={
            "server": settings.server.model_copy(update=server),
            "limits": settings.limits.model_copy(update=limits),
        }
    )
