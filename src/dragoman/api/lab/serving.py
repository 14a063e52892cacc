"""The lab's process from inside: a lab on the server's database, answering on its socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from starlette.types import ASGIApp

from dragoman.api.http import HttpServer
from dragoman.api.lab.app import create_lab_app, create_worker_app
from dragoman.api.lab.child import WayBack
from dragoman.api.lab.desk import LabDesk
from dragoman.api.lab.exposition import LAB_NAMESPACE
from dragoman.api.services import make_authenticator
from dragoman.clock import Clock, SystemClock
from dragoman.errors import StoreError
from dragoman.ids import new_id
from dragoman.lab.annotations import Annotations
from dragoman.lab.audio import audio_folder_of
from dragoman.lab.comparison import Comparisons
from dragoman.lab.evaluators import FunctionProcessPool
from dragoman.lab.library import Library
from dragoman.lab.live_sample import LiveSample, sample_evaluators
from dragoman.lab.mirror import Following, forget_mirror, is_wanted
from dragoman.lab.owners import new_owner
from dragoman.lab.plane import Lab
from dragoman.lab.plugins import Context, OwnFleet, fleet_of_folder
from dragoman.lab.presence import notices
from dragoman.lab.queue import Queue, open_queue
from dragoman.lab.results import Results
from dragoman.lab.roles import SERVER, LabRole
from dragoman.listening import listen, url_of
from dragoman.live.budget import ByteBudget
from dragoman.observability import Metrics, get_logger
from dragoman.randomness import Randomness
from dragoman.settings import Settings
from dragoman.store import Store, open_store

ANSWER_SECONDS = 2
"""How long requests that are being answered may take once the lab stops."""

_log = get_logger(__name__)


async def serve_lab(
    settings: Settings,
    way_back: WayBack,
    listener: socket.socket,
    announce: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Answer on the socket until told to stop; `announce` is called once that can be relied on."""
    metrics = Metrics()
    metrics.describe_process(LAB_NAMESPACE)
    own_fleet = OwnFleet(
        lambda: way_back.url or None,
        str(settings.server.data_dir),
        way_back.token,
        settings.server.tls_cert,
    )
    context = replace(_context(settings), own_fleet=own_fleet)
    async with opened_desk(settings, context, metrics, SERVER) as desk:
        budget = ByteBudget(settings.limits.buffered_bytes)
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


@dataclass(frozen=True)
class OpenedWorker:
    """A worker at work."""

    lab: Lab
    metrics_url: str | None
    """Where it answers for Prometheus, if it does."""


@asynccontextmanager
async def opened_worker(
    settings: Settings, concurrency: int | None, metrics_port: int | None = None
) -> AsyncIterator[OpenedWorker]:
    """A lab that only works on items of others' runs; stopped at the end.

    `concurrency`: how many at once, if not as many as the settings say. `metrics_port`: where it
    answers for Prometheus, on server.host; None: nowhere.
    """
    clock, randomness = SystemClock(), Randomness()
    metrics = Metrics()
    metrics.describe_process(LAB_NAMESPACE)
    folder = settings.server.data_dir
    context = replace(
        _context(settings),
        audio_folder=audio_folder_of(folder),
        own_fleet=fleet_of_folder(folder, settings.server.tls_cert),
    )
    async with (
        await open_store(
            settings.store.database_url, silence_seconds=settings.lab.lease_seconds
        ) as store,
        _opened_queue(settings, clock, randomness, SERVER) as queue,
        Lab(
            store,
            settings.lab,
            clock,
            randomness,
            metrics,
            context=context,
            schedules=False,
            queue=queue,
            capacity=concurrency,
        ) as lab,
        AsyncExitStack() as stack,
    ):
        url = None
        if metrics_port is not None:
            authenticator = await stack.enter_async_context(
                make_authenticator(settings, store, clock, randomness)
            )
            app = create_worker_app(metrics, authenticator, settings)
            url = await stack.enter_async_context(_answering(app, settings, metrics_port))
        yield OpenedWorker(lab, url)


@asynccontextmanager
async def _answering(app: ASGIApp, settings: Settings, port: int) -> AsyncIterator[str]:
    """The application's address, on which it answers inside the block."""
    listeners = listen(settings.server.host, port)
    try:
        http = HttpServer(app, settings, ByteBudget(settings.limits.buffered_bytes))
        serving = asyncio.create_task(http.serve(listeners), name="http")
        await http.settled.wait()
        try:
            port = listeners[0].getsockname()[1]
            yield url_of(settings.server.host, port, tls=bool(settings.server.tls_cert))
        finally:
            http.finish(ANSWER_SECONDS)
            await serving
    finally:
        for listener in listeners:
            listener.close()


def _context(settings: Settings) -> Context:
    """What experiments of a server may reach."""
    return Context(
        settings.lab.python_allow,
        settings.lab.http_allow,
        settings.auth.mode == "open",
        settings.lab.key_env_allow,
    )


@asynccontextmanager
async def opened_desk(
    settings: Settings,
    context: Context,
    metrics: Metrics,
    role: LabRole,
    *,
    mirrored: bool | None = None,
) -> AsyncIterator[LabDesk]:
    """A lab at work on the database of the settings, which is up to date; stopped at the end.

    The lab inside a program or a command is soon over: the database answers it, unless it is
    `mirrored` all the same.
    """
    mirrored = role.keeps_mirror if mirrored is None else mirrored
    clock, randomness = SystemClock(), Randomness()
    audio_folder = audio_folder_of(settings.server.data_dir)
    context = replace(context, audio_folder=audio_folder)
    processes = FunctionProcessPool(1)
    try:
        async with (
            await open_store(
                settings.store.database_url, silence_seconds=settings.lab.lease_seconds
            ) as store,
            _followed(settings if mirrored else None, store, clock, randomness, metrics) as mirror,
            _opened_queue(settings, clock, randomness, role) as queue,
            Lab(
                store,
                settings.lab,
                clock,
                randomness,
                metrics,
                context=context,
                role=role,
                works=not role.serves_others or settings.lab.own_worker,
                queue=queue,
                mirror=_mirror_kind(settings) if mirrored else "",
            ) as lab,
            AsyncExitStack() as stack,
        ):
            if role.is_listed:
                await _tell_of_others(settings, lab)
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
async def _opened_queue(
    settings: Settings, clock: Clock, randomness: Randomness, role: LabRole
) -> AsyncIterator[Queue]:
    """The queue of the settings; a lab inside a program keeps its hints to itself."""
    origin = new_id(randomness.stream("queue"), "q")
    queue_url = settings.lab.queue_url if role.hears_others else ""
    queue = open_queue(queue_url, settings.store.database_url, origin, clock)
    try:
        yield queue
    finally:
        await queue.close()


def _mirror_kind(settings: Settings) -> str:
    url = settings.lab.analytics_url
    return url.partition(":")[0] if is_wanted(url) else ""


async def _tell_of_others(settings: Settings, lab: Lab) -> None:
    """Say at the start what the other processes on this database mean for this one."""
    try:
        others = await lab.presence.others()
    except StoreError:
        return  # it is away, which others say
    mirror = _mirror_kind(settings)
    for notice in notices(others, mirror=mirror, queue_url=settings.lab.queue_url):
        _log.warning("lab_shares_its_database", notice=notice)


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
