"""What nodes work on, over HTTP: the attempts that are at a node now.

The node is named in the query: its name may hold anything, and in a path look like a route.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.live.peers import Peers
from dragoman.api.permissions import require
from dragoman.auth import Permission, Principal, sees_every_tenant
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.dispatch import Job
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import utc_time

_STATES = ("NONE", "DISPATCHED", "ACCEPTED", "RUNNING")

Caller = Annotated[Principal, Depends(require(Permission.NODES))]


class AttemptAtNode(msgspec.Struct, frozen=True):
    """An attempt that a node has, and since when."""

    attempt_id: AttemptId
    state: str
    """DISPATCHED, ACCEPTED or RUNNING."""
    dispatched_at: str
    job_id: JobId | None
    """None for a job of a tenant that the caller may not see."""
    pair: str
    instance_id: InstanceId
    """The instance that drives the job."""


class AttemptsAtNode(msgspec.Struct, frozen=True):
    """What a node works on."""

    items: list[AttemptAtNode]
    unreachable: tuple[InstanceId, ...] = ()
    """Instances that did not say which jobs of theirs the node has."""


def attempts_router(
    prefix: str, plane: LivePlane, peers: Peers, instance_id: InstanceId
) -> APIRouter:
    """The route of attempts that are under way."""
    router = APIRouter(prefix=f"{prefix}/attempts", tags=["nodes"])

    def view(job: Job, caller: Principal) -> AttemptAtNode:
        is_shown = sees_every_tenant(caller) or job.tenant == caller.tenant
        return AttemptAtNode(
            attempt_id=job.attempt_id,
            state=_STATES[job.step],
            dispatched_at=utc_time(job.dispatched_ms),
            job_id=job.job_id if is_shown else None,
            pair=f"{job.spec.src_lang}:{job.spec.tgt_lang}",
            instance_id=instance_id,
        )

    @router.get(
        "",
        summary="What a node works on now, the longest there first",
        response_class=Response,
        responses={200: {"model": shown_as("AttemptsAtNode", AttemptsAtNode)}},
    )
    async def at_node(node_id: str, request: Request, caller: Caller) -> Response:
        plane.registry.known(NodeId(node_id))
        own = [view(job, caller) for job in plane.dispatcher.attempts_at(NodeId(node_id))]
        if peers.answers_alone(request):
            return answer(AttemptsAtNode(own))
        answers = await peers.ask_all(request)
        for body in answers.values():
            if body is not None:
                own += msgspec.json.decode(body, type=AttemptsAtNode).items
        own.sort(key=lambda one: one.dispatched_at)
        unreachable = tuple(peer for peer, body in answers.items() if body is None)
        return answer(AttemptsAtNode(own, unreachable))

    return router
