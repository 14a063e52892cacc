"""Profiles: how fast and how reliable a simulated node is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.engines.simulated.latency import Latency, Shape
from dragoman.errors import SettingsError
from dragoman.live.protocol import ServiceType
from dragoman.sdk import JobFailed


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How fast and how reliable the simulated models are."""

    latencies: Mapping[ServiceType, Latency]
    failure_rate: float = 0.0
    failure_code: str = "INTERNAL_ERROR"

    def failure(self) -> JobFailed:
        """The error of a job that is to fail."""
        return JobFailed(self.failure_code, "The simulated model failed, as its profile asks for.")


def _times(slower: float, shape: Shape, sigma: float = 0.25) -> dict[ServiceType, Latency]:
    """The times of a small GPU's models, some factor slower."""
    base_and_unit_ms = {
        ServiceType.ASR: (60.0, 120.0),  # per second of audio
        ServiceType.SEMANTIC: (30.0, 2.0),  # the others per word
        ServiceType.NMT: (40.0, 3.0),
        ServiceType.TTS: (60.0, 12.0),
        ServiceType.TONE: (40.0, 4.0),
    }
    return {
        kind: Latency(base * slower, unit * slower, shape, sigma)
        for kind, (base, unit) in base_and_unit_ms.items()
    }


PROFILES: Mapping[str, Profile] = {
    "steady": Profile(latencies=_times(1.0, Shape.LOGNORMAL)),
    "instant": Profile(latencies=_times(0.0, Shape.FIXED)),
    "slow": Profile(latencies=_times(4.0, Shape.LOGNORMAL, sigma=0.5)),
    "flaky": Profile(latencies=_times(1.0, Shape.LOGNORMAL, sigma=0.8), failure_rate=0.2),
    "overloaded": Profile(
        latencies=_times(3.0, Shape.EXPONENTIAL),
        failure_rate=0.3,
        failure_code="NODE_OVERLOADED",
    ),
}


def profile_named(name: str) -> Profile:
    """The profile of this name; an unknown one is refused."""
    if name not in PROFILES:
        raise SettingsError(f"there is no profile `{name}`; known are {', '.join(PROFILES)}")
    return PROFILES[name]
