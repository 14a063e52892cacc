"""One run of a scenario: the real scheduler on a virtual clock, with a fleet and its callers.

The live plane is whole: registry, sessions, dispatch, ledger and, with several instances, what
they share. Peers are connected directly: messages are handed to the handlers behind the sockets
as objects, without frames. That is what makes a run quicker than life.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from dragoman.live.protocol import RunningJob
from dragoman.simulation.callers import JobCaller, Speaker
from dragoman.simulation.distributions import Distribution, Fixed, Uniform
from dragoman.simulation.fleet_nodes import FleetNode
from dragoman.simulation.recording import RunRecorder
from dragoman.simulation.scenario import (
    HOUR_SECONDS,
    Fault,
    FaultKind,
    Scenario,
    Traffic,
    TrafficKind,
    curve_factor,
)
from dragoman.task_set import TaskSet
from dragoman.testing import MemoryCluster, MemoryScheduler, VirtualLoop, run_virtual

if TYPE_CHECKING:
    from dragoman.settings import Settings

OnProgress = Callable[[float], None]
"""Called now and then with the share of a run that is done, from 0 to 1."""

Prepare = Callable[["World"], Awaitable[None]]
"""Adds to a world before its traffic begins."""

SETTLE_SECONDS = 2.0
"""Nodes register in this time, before the scenario's clock begins."""
_POPULATION_EVERY_SECONDS = 5.0
_PROGRESS_STEPS = 200
_SLACK_SECONDS = 15.0
"""How much later than its time is up a job may be told its end, with faults about."""
_LIES_AT_ONCE = 3


class World:
    """The scheduler, its fleet and its callers, while one scenario is played."""

    def __init__(
        self, scenario: Scenario, seed: int, on_progress: OnProgress | None = None
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "a simulation runs on virtual time"
        self.loop = loop
        self.recorder = RunRecorder(scenario)
        self.over = False
        """The time is up: faults and failures have ended, and nothing new is asked for."""
        self.closed = False
        self.settings: Settings = scenario.full_settings()
        self.site: MemoryScheduler | MemoryCluster
        """Where nodes and clients of the SDK can connect, too."""
        if scenario.instances == 1:
            self.site = MemoryScheduler(seed=seed, settings=self.settings)
            self._instances: dict[str, MemoryScheduler] = {"i1": self.site}
        else:
            names = [f"i{number}" for number in range(1, scenario.instances + 1)]
            self.site = MemoryCluster(names, seed=seed, settings=self.settings)
            self._instances = {}
        self.nodes: list[FleetNode] = []
        self._random = Random(f"{seed}/world")
        self._fault_random = Random(f"{seed}/faults")
        self._speakers: dict[Speaker, None] = {}
        self._callers: list[JobCaller] = []
        self._made: dict[str, int] = {}
        self._began = 0.0
        self._tasks = TaskSet()
        self._on_progress = on_progress
        self.way_seconds = _drawing_seconds(scenario.link_ms)
        """How long a message is under way: a draw."""

    # --- what nodes and callers ask for ----------------------------------------------------------

    def any_instance(self, random: Random) -> MemoryScheduler | None:
        """An instance that lives, as a load balancer chooses one."""
        living = self._instances
        if len(living) == 1:
            return next(iter(living.values()))
        return living[random.choice(sorted(living))] if living else None

    def work_of_others(self, node: FleetNode, random: Random) -> list[RunningJob]:
        """Some attempts that other nodes work on."""
        running = [
            work.running
            for other in self.nodes
            if other is not node
            for work in other.working.values()
        ]
        return random.sample(running, min(_LIES_AT_ONCE, len(running)))

    def broke(self, promise: str) -> None:
        """The scheduler did not keep a promise."""
        self.recorder.broke(self.loop.time() - self._began, promise)

    def note(self, what: str) -> None:
        """Something went wrong, as it was to."""
        self.recorder.faults.append((self.loop.time() - self._began, what))

    def session_is_over(self, speaker: Speaker) -> None:
        self._speakers.pop(speaker, None)

    # --- the run ---------------------------------------------------------------------------------

    async def play(self, prepare: Prepare | None = None) -> RunRecorder:
        """Play the scenario to its end.

        `prepare` is called before its traffic begins: it may add nodes and clients of its own to
        the world's `site`.
        """
        async with self.site:
            if isinstance(self.site, MemoryCluster):
                for name in sorted(self.site.instances):
                    self._joined(name)
            for use in self.recorder.groups:
                for number in range(1, use.group.nodes + 1):
                    self.nodes.append(FleetNode(f"{use.group.name}-{number}", use, self))
            for node in self.nodes:
                node.start()
            await asyncio.sleep(SETTLE_SECONDS)
            if prepare is not None:
                await prepare(self)
            self._begin()
            await asyncio.sleep(self.scenario.duration_seconds)
            await self._end()
        return self.recorder

    def _begin(self) -> None:
        self._began = self.loop.time()
        self.recorder.begins_at(self._began)
        for traffic in self.scenario.traffic:
            stream = self.recorder.first_stream_of(traffic.name)
            if traffic.kind is TrafficKind.SESSIONS:
                if traffic.sessions:
                    self._keep_population(traffic, stream, [])
                if traffic.starts_per_hour:
                    self._begin_sessions(traffic, stream)
            else:
                caller = JobCaller(traffic, stream, self)
                self._callers.append(caller)
                self._arrivals(traffic, traffic.jobs_per_second, caller.ask)
        for fault in self.scenario.faults:
            if fault.at_seconds < self.scenario.duration_seconds:
                self.loop.call_later(fault.at_seconds, self._strike, fault)
        if self._on_progress is not None:
            self._tell_progress(0)

    async def _end(self) -> None:
        self.over = True
        self.recorder.finish(self.loop.time())
        for speaker in self._speakers:
            speaker.hush()
        timeouts = self.settings.scheduler.job_timeout
        patience = timeouts.total_seconds + _SLACK_SECONDS
        until = (
            self.loop.time()
            + patience
            + max((fault.for_seconds for fault in self.scenario.faults), default=0.0)
        )
        while self._waits() and self.loop.time() < until:  # noqa: ASYNC110  # many things to wait for
            await asyncio.sleep(0.5)
        lost = sum(speaker.give_up() for speaker in self._speakers)
        lost += sum(caller.give_up() for caller in self._callers)
        if lost:
            self.broke(f"{lost} utterances or jobs never had an end")
        self.closed = True
        await self._tasks.stop()

    def _waits(self) -> bool:
        return any(speaker.waits for speaker in self._speakers) or any(
            caller.waits for caller in self._callers
        )

    def _tell_progress(self, step: int) -> None:
        if self._on_progress is not None and not self.over:
            self._on_progress(step / _PROGRESS_STEPS)
            self.loop.call_later(
                self.scenario.duration_seconds / _PROGRESS_STEPS, self._tell_progress, step + 1
            )

    # --- traffic ---------------------------------------------------------------------------------

    def _factor(self, traffic: Traffic) -> float:
        since = self.loop.time() - self._began
        return curve_factor(traffic.curve, self.scenario.start_second_of_day + since)

    def _arrivals(self, traffic: Traffic, per_second: float, arrive: Callable[[], None]) -> None:
        """Let something arrive at random, as often as the curve says."""
        random = Random(f"{self.seed}/{traffic.name}/arrivals")
        highest = max((factor for _, factor in traffic.curve), default=1.0)

        def next_one() -> None:
            self.loop.defer(random.expovariate(per_second * highest), due)

        def due() -> None:
            if self.over:
                return
            # Arrivals at the highest rate, of which the curve lets a share through.
            if not traffic.curve or random.random() * highest < self._factor(traffic):
                arrive()
            next_one()

        next_one()

    def _begin_sessions(self, traffic: Traffic, stream: int) -> None:
        """Sessions that are under way when the scenario begins, and those that begin later."""
        random = Random(f"{self.seed}/{traffic.name}/lengths")
        rate = traffic.starts_per_hour / HOUR_SECONDS
        under_way = round(rate * traffic.session_seconds.mean * self._factor(traffic))

        def begin(part: float = 1.0) -> None:
            speaker = self._new_speaker(traffic, stream)
            seconds = traffic.session_seconds.draw(random) * part
            self.loop.call_later(seconds, self._close, speaker)

        for _ in range(under_way):
            begin(random.random())
        self._arrivals(traffic, rate, begin)

    def _keep_population(self, traffic: Traffic, stream: int, speakers: list[Speaker]) -> None:
        """Have as many sessions open as the curve says."""
        if self.over:
            return
        wanted = round(traffic.sessions * self._factor(traffic))
        while len(speakers) < wanted:
            speakers.append(self._new_speaker(traffic, stream))
        while len(speakers) > wanted:
            speakers.pop(0).close()
        if traffic.curve:
            self.loop.call_later(
                _POPULATION_EVERY_SECONDS, self._keep_population, traffic, stream, speakers
            )

    def _new_speaker(self, traffic: Traffic, stream: int) -> Speaker:
        number = self._made[traffic.name] = self._made.get(traffic.name, 0) + 1
        speaker = Speaker(number, traffic, stream, self)
        self._speakers[speaker] = None
        speaker.start()
        return speaker

    def _close(self, speaker: Speaker) -> None:
        if not self.over:
            speaker.close()

    # --- faults ----------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        """Let a fault happen."""
        seconds = fault.for_seconds
        match fault.kind:
            case FaultKind.INSTANCE:
                self._tasks.spawn(self._lose_instance(seconds))
                return
            case FaultKind.REDIS:
                self._tasks.spawn(self._lose_redis(seconds))
                return
        struck = self._choose(fault)
        for node in struck:
            match fault.kind:
                case FaultKind.NODE | FaultKind.GROUP:
                    node.die(seconds)
                case FaultKind.LINK:
                    node.cut(seconds)
                case FaultKind.SLOW:
                    node.slow_down(fault.factor, seconds)
                case FaultKind.LYING:
                    node.lie(seconds)
        named = ", ".join(node.node_id for node in struck[:3])
        more = f" and {len(struck) - 3} more" if len(struck) > 3 else ""
        self.note(f"{fault.kind.value} for {seconds:g} s: {named}{more}")

    def _choose(self, fault: Fault) -> list[FleetNode]:
        fitting = [node for node in self.nodes if fault.group in (None, node.group.name)]
        if fault.kind is FaultKind.GROUP:
            return fitting
        return self._fault_random.sample(fitting, min(fault.nodes, len(fitting)))

    async def _lose_instance(self, seconds: float) -> None:
        site = self.site
        assert isinstance(site, MemoryCluster), "the scenario was checked"
        if len(site.instances) < 2:
            return
        name = self._fault_random.choice(sorted(site.instances))
        self.note(f"instance {name} for {seconds:g} s")
        instance = self._instances.pop(name)
        for caller in self._callers:
            caller.lost(instance)
        await site.kill(name)
        await asyncio.sleep(seconds)
        await site.begin(name)
        self._joined(name)

    def _joined(self, name: str) -> None:
        assert isinstance(self.site, MemoryCluster), "instances join a cluster"
        instance = self.site[name]
        instance.access.seconds = self.scenario.redis_ms / 1000
        self._instances[name] = instance

    async def _lose_redis(self, seconds: float) -> None:
        assert isinstance(self.site, MemoryCluster), "the scenario was checked"
        self.note(f"redis for {seconds:g} s")
        self.site.server.stop()
        await asyncio.sleep(seconds)
        self.site.server.go_on()


def _drawing_seconds(milliseconds: Distribution) -> Callable[[Random], float]:
    """Draws in seconds, each with as few calls as its shape allows."""
    match milliseconds:
        case Fixed(value):
            return lambda _: value / 1000
        case Uniform(low, high):
            return lambda random: (low + (high - low) * random.random()) / 1000
    return lambda random: milliseconds.draw(random) / 1000


def play(
    scenario: Scenario,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    prepare: Prepare | None = None,
) -> RunRecorder:
    """Play a scenario once; the same seed gives the same figures."""
    with _fewer_searches_for_cycles():
        return run_virtual(lambda: World(scenario, seed, on_progress).play(prepare), seed=seed)


@contextmanager
def _fewer_searches_for_cycles() -> Iterator[None]:
    """Let the collector look less often: it would take a fifth of the time, and finds little."""
    before = gc.get_threshold()
    # What was there before the run is not looked at in it.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        # The next run must not find this one's world in memory.
        gc.collect()
        gc.unfreeze()
