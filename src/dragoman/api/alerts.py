"""``GET /alerts``: which alerts would fire now, judged by this server without Prometheus."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from dragoman.api.permissions import require
from dragoman.api.services import Services
from dragoman.auth import Permission
from dragoman.live.protocol import utc_time
from dragoman.observability import ELSEWHERE, WATCHED, AlertJudge, AlertState, get_logger

PREFIX = "/api/v1"

LOOK_SECONDS = 15.0
"""How often the figures are looked at; Prometheus does so as often."""

_log = get_logger(__name__)


class AlertShown(BaseModel):
    """An alert whose condition holds on this server."""

    name: str = Field(examples=["DragomanNoReadyNode"])
    severity: Literal["page", "ticket"]
    state: Literal["firing", "pending"] = Field(
        description="Pending: the condition holds, and not yet for as long as the alert wants."
    )
    about: dict[str, str] = Field(description="What it is about, such as the dependency.")
    summary: str
    since: str = Field(description="When the condition was first found to hold.")
    for_seconds: float = Field(description="How long it must hold before the alert fires.")
    runbook: str = Field(description="The entry of the runbook that says what to do.")


class AlertList(BaseModel):
    """What this server would alert of; others of the cluster judge for themselves."""

    instance_id: str
    looked_at: str | None = Field(description="When the figures were last looked at.")
    items: list[AlertShown]
    not_judged: list[str] = Field(
        description="Alerts that take figures of other processes: Prometheus judges them."
    )


class AlertWatch:
    """Looks at the server's own metrics again and again. A plane: it stops with the server."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._judge = AlertJudge()
        self._looking: asyncio.Task[None] | None = None
        self.looked_at_ms: int | None = None

    @property
    def states(self) -> list[AlertState]:
        return self._judge.states

    def since_ms(self, state: AlertState) -> int:
        clock = self._services.clock
        return clock.now_ms() - int((clock.monotonic() - state.since) * 1000)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.create_task(self._look_on(), name="alerts")

    async def drain(self) -> None:
        """There is nothing to wait for."""

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def look(self) -> None:
        services = self._services
        verdict = await services.readiness.verdict()
        services.metrics.show_readiness(verdict.ready, verdict.dependencies)
        self._judge.look(services.clock.monotonic(), services.metrics.readings(WATCHED))
        self.looked_at_ms = services.clock.now_ms()

    async def _look_on(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                _log.exception("alerts_not_judged")
            await asyncio.sleep(LOOK_SECONDS)


def alerts_router(services: Services, watch: AlertWatch) -> APIRouter:
    """The route for the console, and for those who have no Prometheus."""
    router = APIRouter(
        prefix=f"{PREFIX}/alerts",
        tags=["stats"],
        dependencies=[Depends(require(Permission.STATS))],
    )

    @router.get("", summary="Alerts whose conditions hold on this server now")
    async def holding() -> AlertList:
        looked_at_ms = watch.looked_at_ms
        return AlertList(
            instance_id=services.instance_id,
            looked_at=None if looked_at_ms is None else utc_time(looked_at_ms),
            items=[_shown(state, watch.since_ms(state)) for state in watch.states],
            not_judged=sorted(ELSEWHERE),
        )

    return router


def _shown(state: AlertState, since_ms: int) -> AlertShown:
    return AlertShown(
        name=state.rule.name,
        severity=state.rule.severity,
        state="firing" if state.firing else "pending",
        about=dict(state.about),
        summary=state.summary,
        since=utc_time(since_ms),
        for_seconds=state.rule.for_seconds,
        runbook=state.rule.runbook,
    )
