"""A seeded engine that simulates models."""

from __future__ import annotations

import msgspec

from dragoman.engines.simulated.engine import LANGUAGES, SimulatedEngine
from dragoman.engines.stage import EngineKind, Opening, Stage, StageKind
from dragoman.live.protocol import STAGES, Pipeline, ServiceType
from dragoman.sdk import Answer, Device, Job, Service, ServiceStatus, WorkFunction


class SimulatedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the simulated models behave."""

    profile: str = "steady"
    seed: int | None = None


class SimulatedStage(Stage):
    """One simulated step beside real ones."""

    languages = LANGUAGES
    takes_any_language = True

    def __init__(self, kind: ServiceType, options: SimulatedOptions) -> None:
        self.service = Service(
            service_id=f"simulated-{kind}",
            type=kind,
            device=Device.CPU,
            status=ServiceStatus.RUNNING,
        )
        self._pipeline = Pipeline(**{flag: stage is kind for flag, stage in STAGES.items()})
        self._engine = SimulatedEngine(options.seed, options.profile)

    async def work(self, job: Job) -> Answer:
        return await self._engine.work(msgspec.structs.replace(job, pipeline=self._pipeline))


def _stage(kind: ServiceType) -> StageKind:
    def opened(options: SimulatedOptions, _: Opening) -> Stage:
        return SimulatedStage(kind, options)

    return StageKind(summary="no model", options=SimulatedOptions, open=opened)


def _whole(options: SimulatedOptions, _: Opening) -> WorkFunction:
    return SimulatedEngine(options.seed, options.profile).work


ENGINE = EngineKind(
    summary="no models: it waits, and answers what a person can check by eye",
    stages={
        kind: _stage(kind)
        for kind in (ServiceType.ASR, ServiceType.SEMANTIC, ServiceType.NMT, ServiceType.TTS)
    },
    whole=_whole,
)
