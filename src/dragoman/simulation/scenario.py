"""What a simulation plays: a fleet, its traffic, its faults and the settings under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from dragoman.settings import Settings
from dragoman.simulation.distributions import Distribution, Exponential, Fixed, Lognormal, Uniform
from dragoman.testing import settings_with

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3_600.0

_SERVICE_MS = Lognormal(600, 1_400)
_DOWN_SECONDS = Fixed(30)
_RECONNECT_SECONDS = Uniform(0.5, 2.0)
_SESSION_SECONDS = Exponential(600)
_UTTERANCE_MS = Lognormal(2_000, 5_000)
_PAUSE_MS = Exponential(2_700)
_LINK_MS = Uniform(1, 5)


@dataclass(frozen=True, kw_only=True)
class FleetGroup:
    """Nodes that are alike."""

    name: str = "nodes"
    nodes: int = 10
    slots: int = 4
    """How many jobs one of them works on at a time."""
    languages: tuple[str, ...] = ("en", "es")
    """What its services understand and speak, where a service has no languages of its own."""
    asr: tuple[str, ...] | None = None
    semantic: tuple[str, ...] = ()
    nmt: tuple[str, ...] | None = None
    tts: tuple[str, ...] | None = None
    service_ms: Distribution = _SERVICE_MS
    """How long a node works on a job."""
    audio_ms_per_second: float = 0.0
    """How much longer for each second of speech."""
    failure_share: float = 0.0
    """Share of the jobs that a node ends with an error; the scheduler tries another node."""
    fails_every_seconds: float = 0.0
    """Mean time between a node's failures; 0: nodes do not fail by themselves."""
    down_seconds: Distribution = _DOWN_SECONDS
    """How long a node that failed is gone, until it tries to connect."""
    loses_work: bool = True
    """Whether a node that failed has lost what it worked on."""
    reconnect_seconds: Distribution = _RECONNECT_SECONDS
    """How long a node whose connection is lost waits before each try to connect."""
    cost: float = 1.0
    """What one node costs, in any unit, for `--plan`."""
    min_nodes: int = 0
    max_nodes: int = 1_000
    """The fewest and the most nodes that `--plan` may choose."""


class TrafficKind(StrEnum):
    """Who asks for work."""

    SESSIONS = "sessions"
    """Speakers: each utterance waits for a slot as the settings say."""
    JOBS = "jobs"
    """`POST /jobs`."""
    BATCH = "batch"
    """`POST /jobs` of class batch: it takes what live traffic leaves free."""


class InputKind(StrEnum):
    """What an utterance is."""

    SPEECH = "speech"
    TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """A stream of work of one kind."""

    name: str = "traffic"
    kind: TrafficKind = TrafficKind.SESSIONS
    src_lang: str = "en"
    tgt_langs: tuple[str, ...] = ("es",)
    input: InputKind = InputKind.SPEECH
    tenant: str = "default"
    curve: tuple[tuple[float, float], ...] = ()
    """(second of the day, factor): how arrivals rise and fall; empty: they do not."""
    # Of sessions.
    sessions: int = 0
    """Sessions that are open all the time."""
    starts_per_hour: float = 0.0
    """Sessions that begin in an hour, each as long as `session_seconds` says."""
    session_seconds: Distribution = _SESSION_SECONDS
    utterance_ms: Distribution = _UTTERANCE_MS
    pause_ms: Distribution = _PAUSE_MS
    """From the end of an utterance to the beginning of the next."""
    # Of jobs.
    jobs_per_second: float = 0.0
    waits: bool = False
    """Whether a job waits for a slot (`wait_ms`); otherwise it is refused when none is free."""

    @property
    def pairs(self) -> tuple[str, ...]:
        """The language pairs of its work, as pools are written."""
        return tuple(f"{self.src_lang}:{target}" for target in self.tgt_langs)


class FaultKind(StrEnum):
    """What can go wrong."""

    NODE = "node"
    """Nodes die, with their work, and come back after `for_seconds`."""
    GROUP = "group"
    """Every node of a group dies: a rack loses its power."""
    LINK = "link"
    """Nodes lose their connection and go on working; the scheduler is not told."""
    INSTANCE = "instance"
    """An instance of the scheduler dies, and is started again after `for_seconds`."""
    REDIS = "redis"
    """What the instances share does not answer for `for_seconds`."""
    SLOW = "slow"
    """Nodes take `factor` times as long."""
    LYING = "lying"
    """Nodes answer for jobs of others, and their heartbeats hide what they work on."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong at a time, for a time."""

    kind: FaultKind
    at_seconds: float
    """Since the scenario began."""
    for_seconds: float = 60.0
    group: str | None = None
    """Whose nodes; None: of any group."""
    nodes: int = 1
    """How many nodes; a seed decides which."""
    factor: float = 5.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything that decides a simulation, but for its seed."""

    name: str = "scenario"
    duration_seconds: float = 600.0
    warmup_seconds: float = 30.0
    """What is asked for before is not counted."""
    start_second_of_day: float = 9 * HOUR_SECONDS
    instances: int = 1
    link_ms: Distribution = _LINK_MS
    """How long a message is under way between the scheduler and a node or a client."""
    redis_ms: float = 0.5
    """How long the way to Redis and back takes on average, where there are several instances."""
    fleet: tuple[FleetGroup, ...] = field(default_factory=lambda: (FleetGroup(),))
    traffic: tuple[Traffic, ...] = field(default_factory=lambda: (Traffic(sessions=50),))
    faults: tuple[Fault, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the defaults, by dotted key."""

    def with_nodes(self, nodes: Sequence[int]) -> Scenario:
        """The same with other numbers of nodes, in the order of the groups."""
        fleet = tuple(
            replace(group, nodes=count) for group, count in zip(self.fleet, nodes, strict=True)
        )
        return replace(self, fleet=fleet)

    def with_faults(self, faults: Sequence[Fault]) -> Scenario:
        """The same with other faults."""
        return replace(self, faults=tuple(faults))

    @property
    def cost(self) -> float:
        """What the fleet costs."""
        return sum(group.nodes * group.cost for group in self.fleet)

    @property
    def slots(self) -> int:
        return sum(group.nodes * group.slots for group in self.fleet)

    def full_settings(self) -> Settings:
        """The settings that the scheduler runs on."""
        return settings_with(self.settings)


def curve_factor(curve: Sequence[tuple[float, float]], second_of_day: float) -> float:
    """How strong traffic is at a time of the day: straight lines between the curve's points."""
    if not curve:
        return 1.0
    second = second_of_day % DAY_SECONDS
    before = curve[-1][0] - DAY_SECONDS, curve[-1][1]
    for point in (*curve, (curve[0][0] + DAY_SECONDS, curve[0][1])):
        if second <= point[0]:
            span = point[0] - before[0]
            part = (second - before[0]) / span if span else 1.0
            return before[1] + (point[1] - before[1]) * part
        before = point
    return before[1]
