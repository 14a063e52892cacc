"""Jobs over HTTP: make one, wait for it, look at it, explain it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from dragoman.api.lifecycle import ServerState
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.api.live.job_orders import order_of, read_request
from dragoman.api.live.job_views import view_job
from dragoman.api.live.peers import Peers
from dragoman.api.paging import Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.api.services import Services
from dragoman.auth import Permission, Principal, effective_tenant, may_see, tenant_asked
from dragoman.errors import DependencyDown, DragomanError, InternalError, NotFound
from dragoman.ids import JobId
from dragoman.live.dispatch import FORGOTTEN, as_error
from dragoman.live.gateway import LivePlane
from dragoman.live.ledger import JobRecord, Seats
from dragoman.live.protocol import (
    MAX_WAIT_MS,
    ExplainView,
    JobClass,
    JobRequest,
    JobView,
    ListPage,
    LiveSampleView,
    Outcome,
    ResultAudio,
    ServedView,
)

Client = Annotated[Principal, Depends(require(Permission.JOBS))]
AudioQuery = Annotated[
    ResultAudio, Query(description="omit leaves the audio of results out of the answer.")
]

WaitQuery = Annotated[
    int | None,
    Query(ge=0, le=MAX_WAIT_MS, description="Answer when the job has ended, at most so late."),
]

_VIEWED_TOGETHER = 32
_TURN_SECONDS = 1.0
"""How often a caller that waits for a job's end is asked whether the server still takes callers."""
NOT_SAMPLED = LiveSampleView(scored=False, reason="This server has no lab (lab.enabled).")

_JOB = shown_as("Job", JobView)
_INPUT = {"anyOf": [{"required": ["text"]}, {"required": ["audio"]}]}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {**schema_of(JobRequest), **_INPUT}}},
    }
}


def jobs_router(prefix: str, plane: LivePlane, services: Services, peers: Peers) -> APIRouter:
    """Routes of jobs."""
    router = APIRouter(prefix=f"{prefix}/jobs", tags=["jobs"])
    desk = JobDesk(plane, services)

    @router.post(
        "",
        summary="Make a job",
        status_code=201,
        response_class=Response,
        responses={
            200: {"model": _JOB, "description": "The request had been made before; its job"},
            201: {"model": _JOB, "description": "The job that this request made"},
            202: {"model": _JOB, "description": "wait_ms passed before the job ended"},
        },
        openapi_extra=_BODY,
    )
    async def create(request: Request, client: Client) -> Response:
        traceparent = request.headers.get("traceparent")
        return await desk.create(await request.body(), client, traceparent)

    @router.post(
        "/check",
        summary="Whether a job would be served",
        response_class=Response,
        responses={200: {"model": shown_as("Served", ServedView)}},
        openapi_extra=_BODY,
    )
    async def check(request: Request, client: Client) -> Response:
        """Takes what `POST /jobs` takes, and makes no job. Nodes that are full do serve it."""
        return answer(desk.check(await request.body(), client))

    @router.get(
        "",
        summary="The tenant's jobs, newest first",
        response_class=Response,
        responses={200: {"model": shown_as("JobPage", ListPage[JobView])}},
    )
    async def newest(
        client: Client,
        page: Paging,
        tenant_id: Annotated[
            str | None, Query(description="Another tenant's jobs (operators only).")
        ] = None,
        result_audio: AudioQuery = ResultAudio.INCLUDE,
    ) -> Response:
        tenant = tenant_asked(client, tenant_id)
        before = page.position(tuple[int, JobId])
        records = await plane.ledger.recent(tenant, page.limit + 1, before)
        shown = records[: page.limit]
        more = len(records) > page.limit
        return answer(
            ListPage(
                await _views(plane.ledger, shown, result_audio),
                encode_cursor((shown[-1].created_at_ms, shown[-1].job_id)) if more else None,
            )
        )

    @router.get(
        "/{job_id}",
        summary="A job",
        response_class=Response,
        responses={200: {"model": _JOB}},
    )
    async def one(
        job_id: str,
        client: Client,
        result_audio: AudioQuery = ResultAudio.INCLUDE,
        wait_ms: WaitQuery = None,
    ) -> Response:
        record = await desk.job(job_id, client)
        if wait_ms and not record.ended:
            await desk.ended(record.job_id, wait_ms / 1000)
            record = await desk.job(job_id, client)
        view = await view_job(plane.ledger, record, result_audio)
        sampled = NOT_SAMPLED
        for sample in services.live_sample:
            sampled = await sample.view(record)
        return answer(msgspec.structs.replace(view, live_sample=sampled))

    @router.get(
        "/{job_id}/explain",
        summary="Why the scheduler chose a job's nodes",
        response_class=Response,
        responses={200: {"model": shown_as("Explain", ExplainView)}},
    )
    async def explain(job_id: str, request: Request, client: Client) -> Response:
        record = await desk.job(job_id, client)
        decided_by = record.claimed_by
        alone = peers.answers_alone(request)
        if not alone and decided_by != services.instance_id:
            body = await peers.ask(decided_by, request)
            if body is not None:
                return Response(body, media_type="application/json")
        found = plane.dispatcher.explain(record.job_id)
        if found is not None:
            return answer(found)
        if alone or decided_by == services.instance_id or peers.is_present(decided_by):
            why = "scheduler.explain_max says how many are"
        else:
            why = f"it went with instance {decided_by}, which decided it and is gone"
        raise NotFound(f"The explanation of job {job_id} is no longer kept; {why}.")

    @router.delete(
        "/{job_id}",
        summary="Cancel a job",
        response_class=Response,
        responses={200: {"model": _JOB}},
    )
    async def cancel(job_id: str, client: Client) -> Response:
        record = await desk.job(job_id, client)
        cancelled = await plane.dispatcher.cancel(record.job_id)
        return answer(await view_job(plane.ledger, cancelled))

    return router


class JobDesk:
    """Takes requests, and waits for the job where the caller asks for that."""

    def __init__(self, plane: LivePlane, services: Services) -> None:
        self._plane = plane
        self._lifecycle = services.lifecycle
        self._clock = services.clock
        self._random = services.randomness.stream("job requests")
        self._rule = plane.snapshots.current.rule
        self._grace_seconds = services.settings.scheduler.job_timeout.cancel_grace_seconds

    async def create(self, body: bytes, client: Principal, traceparent: str | None) -> Response:
        """Make or find the job of a request, and answer when the caller wants the answer."""
        self._lifecycle.check_takes_work()
        if self._plane.member is not None:
            await self._plane.member.check_belongs()
        request = read_request(body)
        tenant = effective_tenant(client, request.tenant_id)
        order = order_of(request, tenant, self._rule, self._random, traceparent)
        submitted = await self._plane.dispatcher.submit(order)
        waited = await self._wait(request, submitted.job_id)
        record = await self._plane.ledger.read(submitted.job_id)
        if record is None:
            # Jobs are kept long after their end, so the ledger has lost this one.
            raise DependencyDown(FORGOTTEN.message, details={"job_id": submitted.job_id})
        if _was_refused(record):
            raise _refusal(record)
        if waited and not record.ended:
            status = 202
        else:
            status = 201 if submitted.created else 200
        view = await view_job(self._plane.ledger, record, request.result_audio)
        return answer(view, status)

    def check(self, body: bytes, client: Principal) -> ServedView:
        """Whether a node could carry the job of a request; raises the refusal otherwise."""
        request = read_request(body)
        tenant = effective_tenant(client, request.tenant_id)
        spec = order_of(request, tenant, self._rule, self._random).spec
        nodes = self._plane.dispatcher.check_served(spec)
        return ServedView(self._plane.dispatcher.requirement(spec).shown, nodes)

    async def _wait(self, request: JobRequest, job_id: JobId) -> bool:
        """Wait as long as the request asks for; False when it does not ask.

        Batch work may wait for hours: it is looked at again later, never waited for here.
        """
        if request.job_class is JobClass.BATCH:
            return False
        if request.wait_ms is None:
            await self._plane.dispatcher.placed(job_id, self._grace_seconds)
            return False
        await self._plane.dispatcher.ended(job_id, request.wait_ms / 1000)
        return True

    async def ended(self, job_id: JobId, seconds: float) -> None:
        """Wait for a job's end, so long at most, and not longer than the server takes callers.

        Batch work may wait for hours, and a server that drains must not wait for its callers.
        """
        left_seconds = seconds
        while left_seconds > 0:
            asked_at = self._clock.monotonic()
            turn_seconds = min(left_seconds, _TURN_SECONDS)
            if await self._plane.dispatcher.ended(job_id, turn_seconds) is not None:
                return
            took_seconds = self._clock.monotonic() - asked_at
            left_seconds -= took_seconds
            is_unknown = took_seconds < turn_seconds / 2
            if is_unknown or self._lifecycle.state not in (ServerState.READY, ServerState.LEAVING):
                return

    async def job(self, job_id: str, client: Principal) -> JobRecord:
        """A job that the caller may see; another tenant's does not exist for them."""
        record = await self._plane.ledger.read(JobId(job_id))
        if record is None or not may_see(client, record.spec.tenant):
            raise NotFound(f"There is no job {job_id}; jobs are kept for a while after their end.")
        return record


async def _views(ledger: Seats, records: Sequence[JobRecord], audio: ResultAudio) -> list[JobView]:
    """Jobs with their attempts, few at a time, so that a long page lets other requests through."""
    views: list[JobView] = []
    for start in range(0, len(records), _VIEWED_TOGETHER):
        some = records[start : start + _VIEWED_TOGETHER]
        views += await asyncio.gather(*(view_job(ledger, record, audio) for record in some))
    return views


def _was_refused(record: JobRecord) -> bool:
    """Whether it ended without any node having tried."""
    return record.outcome is Outcome.FAILED and not any(past.bound for past in record.attempts)


def _refusal(record: JobRecord) -> DragomanError:
    error = as_error(record.error) if record.error is not None else InternalError()
    error.details["job_id"] = record.job_id
    return error
