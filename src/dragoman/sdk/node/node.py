"""A node: it stays connected to its scheduler and does the jobs it is given."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from random import Random

import uvloop

from dragoman.clock import Clock, SystemClock
from dragoman.errors import InvalidCapabilitySchema
from dragoman.ids import NodeId
from dragoman.live.protocol import (
    Command,
    Hardware,
    NodeControl,
    NodeDrain,
    NodeHealth,
    NodeHeartbeat,
    NodeRegisterAck,
    NodeStatus,
    ResourceUsage,
    RunningJob,
    Service,
)
from dragoman.sdk.connecting import NodeConnect, WebSocketConnect
from dragoman.sdk.node.audio import AudioWanted, with_audio_as
from dragoman.sdk.node.conversation import NodeConversation
from dragoman.sdk.node.ending import (
    NodeConnectionEnding,
    final_error,
    has_no_place,
    wait_asked_for_seconds,
)
from dragoman.sdk.node.events import Commanded, Disconnected, Event, HealthChanged, Registered
from dragoman.sdk.node.hand import Hand
from dragoman.sdk.node.identity import Identity, recall, remember
from dragoman.sdk.node.machine import MachineUsage, this_machine
from dragoman.sdk.node.narration import Narrator, to_terminal
from dragoman.sdk.node.offer import Offer, checked, features_of, languages_of, services_for
from dragoman.sdk.node.outbox import NodeOutbox
from dragoman.sdk.node.outcomes import LEAVING
from dragoman.sdk.node.signals import serve_until_signalled
from dragoman.sdk.node.stages import pipeline_of
from dragoman.sdk.node.work import Work, WorkFunction, as_work
from dragoman.sdk.node.workbench import Workbench
from dragoman.sdk.transport import Backoff, Unreachable

_STEADY_SECONDS = 10.0
"""A connection that lasted so long was a good one: the next wait is short again."""
_GOODBYE_SECONDS = 2.0
"""How long the goodbye and the last results may take to be sent."""


class Node:
    """One node of the fleet: ``Node(url, nmt=["en", "es"], work=translate).run()``.

    `url` is the scheduler's, or a `NodeConnect` of your own. Give one function for whole jobs as
    `work`, or one per service as `services`; async functions run on the event loop, plain ones in
    threads, or with ``threads=False`` on the event loop too. `asr`, `semantic`, `nmt` and `tts`
    list the languages of each service.
    """

    def __init__(
        self,
        url: str | NodeConnect,
        *,
        work: WorkFunction | None = None,
        services: Mapping[str, WorkFunction] | None = None,
        asr: Sequence[str] = (),
        semantic: Sequence[str] = (),
        nmt: Sequence[str] = (),
        tts: Sequence[str] = (),
        slots: int = 1,
        features: Sequence[str] = (),
        models: Sequence[Service] | None = None,
        accept_public_jobs: bool = True,
        node_id: str | None = None,
        token: str | None = None,
        identity_file: Path | None = None,
        drain_seconds: float = 30.0,
        audio: AudioWanted | None = None,
        lifespan: Callable[[], AbstractAsyncContextManager[object]] | None = None,
        on_event: Callable[[Event], None] | None = None,
        threads: bool = True,
        hardware: Hardware | None = None,
        usage: Callable[[], ResourceUsage] | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Say what the node offers; nothing is connected yet.

        `models` names the services one by one where their ids and versions matter. `identity_file`
        keeps the node's id across restarts. `drain_seconds` is what running jobs get when the node
        is told to leave. ``threads=False`` spares plain functions that return at once a thread
        for each job; a slow one would hold up the whole node. `audio` is the form in which the
        functions want audio; None: as the client sent it. `lifespan` makes an async context manager
        around the node's life: models are loaded there before the node registers, and let go after
        it has left. The rest is for tests: everything that has to do with chance, time and this
        machine can be handed in.
        """
        self._connect = WebSocketConnect(url, token=token) if isinstance(url, str) else url
        self._clock = clock or SystemClock()
        self._identity_file = identity_file
        self._identity = recall(node_id, identity_file)
        languages = languages_of(asr, semantic, nmt, tts)
        self._offer = checked(
            Offer(
                services=services_for(languages, services) if models is None else tuple(models),
                languages=languages,
                slots=slots,
                hardware=hardware or this_machine(),
                features=features_of(features),
                accept_public_jobs=accept_public_jobs,
            ),
            self._identity,
        )
        self._usage = usage or MachineUsage()
        where = str(getattr(self._connect, "url", "the scheduler"))
        self._narrator = Narrator(where, languages, slots, self._clock)
        self._on_event = on_event
        self._backoff = Backoff(random or secrets.SystemRandom())
        self._hand = Hand(slots)
        self._outbox = NodeOutbox(self._hand, self._heartbeat, self._tell)
        working = _work_of(work, services, self._clock, threads=threads)
        self._workbench = Workbench(
            self._hand,
            self._outbox,
            working if audio is None else with_audio_as(audio, working),
            self._clock,
            self._tell,
            is_watched=on_event is not None,
        )
        self._drain_seconds = drain_seconds
        self._lifespan = lifespan
        self._leaving = asyncio.Event()
        self._leaving_because: str | None = None
        self._known_to_leave = asyncio.Event()
        self._registered_at: float | None = None
        self.status = NodeHealth.OFFLINE
        """How the scheduler sees the node."""

    @property
    def node_id(self) -> NodeId | None:
        """The node's id; None until a scheduler has chosen one."""
        return self._identity.node_id

    @property
    def running(self) -> tuple[RunningJob, ...]:
        """The attempts in hand, as the next heartbeat would list them."""
        return self._hand.listed

    @property
    def high_water(self) -> int:
        """The most jobs that ever ran at once; never more than the slots."""
        return self._hand.high_water

    def run(self) -> bool:
        """Work until SIGTERM or Ctrl-C, which lets running jobs finish; a second signal does not.

        What the person who runs it should know is written to the terminal: that the node is
        connected, why it gets no jobs, and what its functions raise. True when the node left in
        peace. A scheduler that sends it away for good is an error.
        """
        self._narrator.say = to_terminal
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(serve_until_signalled(self))

    async def serve(self) -> None:
        """Work until told to `leave`; cancelling it leaves at once.

        What `run` writes to the terminal goes to the logger ``dragoman.node`` here.
        """
        if self._lifespan is None:
            await self._serve()
            return
        is_warm = asyncio.Event()
        living = asyncio.create_task(self._live(self._lifespan, is_warm))
        left = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait([living, left], return_when=asyncio.FIRST_COMPLETED)
            if is_warm.is_set() or living.done():
                await living
        finally:
            # A node that is told to leave while its models load need not wait for them.
            for task in (living, left):
                task.cancel()
            await asyncio.gather(living, left, return_exceptions=True)

    async def _live(
        self, lifespan: Callable[[], AbstractAsyncContextManager[object]], is_warm: asyncio.Event
    ) -> None:
        async with lifespan():
            is_warm.set()
            await self._serve()

    async def _serve(self) -> None:
        connected = asyncio.create_task(self._stay_connected())
        left = asyncio.create_task(self._finish_and_leave())
        try:
            await asyncio.wait([connected, left], return_when=asyncio.FIRST_COMPLETED)
            if connected.done():
                await connected  # it only ends with an error
        finally:
            for task in (connected, left):
                task.cancel()
            await asyncio.gather(connected, left, return_exceptions=True)
            await self._workbench.abandon()
            self._narrator.finish()

    def leave(self, reason: str | None = None) -> None:
        """Take no more jobs, finish what runs, and then let `serve` return."""
        if not self._leaving.is_set():
            self._leaving_because = reason
            self._narrator.leaving = True
            self._leaving.set()
            self._workbench.closing = True
            self._outbox.say(NodeDrain(reason))

    async def _stay_connected(self) -> None:
        while True:
            ending = await self._one_connection()
            was_registered = self._registered_at is not None
            self._note_the_end()
            error = final_error(ending, self.node_id)
            if error is not None:
                raise error
            wait_seconds = self._backoff.next_seconds(
                refused=has_no_place(ending), at_least_seconds=wait_asked_for_seconds(ending)
            )
            reason = ending.refusal.message if ending.refusal else ending.reason
            self._tell(Disconnected(ending.code, reason, wait_seconds, was_registered))
            await asyncio.sleep(wait_seconds)

    async def _one_connection(self) -> NodeConnectionEnding:
        try:
            link = await self._connect()
        except Unreachable as error:
            return NodeConnectionEnding(str(error))
        conversation = NodeConversation(
            link,
            self._outbox,
            self._workbench,
            registered=self._on_registered,
            status_changed=self._on_status,
            commanded=self._on_command,
        )
        try:
            return await conversation.hold(self._offer.register(self._identity, self._hand.listed))
        finally:
            await link.close()

    def _tell(self, event: Event) -> None:
        self._narrator.tell(event)
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception as error:  # the owner's own code, called amid the work on jobs
                self._narrator.watcher_failed(event, error)

    def _note_the_end(self) -> None:
        self.status = NodeHealth.OFFLINE
        since = self._registered_at
        if since is not None and self._clock.monotonic() - since >= _STEADY_SECONDS:
            self._backoff.reset()
        self._registered_at = None

    def _on_registered(self, ack: NodeRegisterAck) -> None:
        self._registered_at = self._clock.monotonic()
        identity = Identity(ack.node_id, ack.registration_token)
        if identity != self._identity:
            self._identity = identity
            if self._identity_file is not None:
                remember(identity, self._identity_file)
        self.status = ack.status
        if self._leaving.is_set():
            # The scheduler forgets a node's own drain when the connection ends.
            self._outbox.say(NodeDrain(self._leaving_because))
        self._tell(Registered(ack.node_id, ack.instance_id, ack.cell, ack.pools, ack.status))

    def _on_status(self, message: NodeStatus) -> None:
        self.status = message.status
        if message.status is NodeHealth.DRAINING:
            self._known_to_leave.set()
        else:
            self._known_to_leave.clear()
        self._tell(HealthChanged(message.status, message.reason))

    def _on_command(self, control: NodeControl) -> None:
        """Obey the scheduler. It drains and resumes nodes itself: these are only reported."""
        self._tell(Commanded(control.command, control.reason))
        if control.command is Command.REPORT:
            self._outbox.beat()
        elif control.command is Command.SHUTDOWN:
            self.leave(control.reason)

    def _heartbeat(self) -> NodeHeartbeat:
        return NodeHeartbeat(self._usage(), self._hand.listed)

    async def _finish_and_leave(self) -> None:
        """Wait until the node was told to leave and has nothing left to do."""
        await self._leaving.wait()
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self._hand.empty.wait()
        except TimeoutError:
            self._workbench.call_off_all(LEAVING)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                if self._registered_at is not None:
                    # Once the scheduler has said so, no job is on its way here any more.
                    await self._known_to_leave.wait()
                await self._hand.empty.wait()


def _work_of(
    work: WorkFunction | None,
    services: Mapping[str, WorkFunction] | None,
    clock: Clock,
    *,
    threads: bool,
) -> Work:
    if work is not None and services is None:
        return as_work(work, "work", threads=threads)
    if services is not None and work is None:
        return pipeline_of(services, clock, threads=threads)
    raise InvalidCapabilitySchema(
        "a node needs `work`, one function for whole jobs, or `services`, one for each service:"
        " give one of the two"
    )
