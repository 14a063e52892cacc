"""The live plane as a part of a server."""

from __future__ import annotations

from dragoman.api.live.catalog import catalog_router
from dragoman.api.live.cluster import cluster_router
from dragoman.api.live.jobs import jobs_router
from dragoman.api.live.ledgers import open_backends
from dragoman.api.live.metrics import metrics_router
from dragoman.api.live.nodes import nodes_router
from dragoman.api.live.peers import Peers
from dragoman.api.live.pools import pools_router
from dragoman.api.live.redis_gate import RedisGate
from dragoman.api.live.sessions import sessions_router
from dragoman.api.live.stats import stats_router
from dragoman.api.parts import Parts, Plane
from dragoman.api.services import Services
from dragoman.live.gateway import LivePlane, WebSocketApp

PREFIX = "/api/v1"


def live_parts(services: Services) -> Parts:
    """The plane, which lives and drains with the server, its routes, and its sockets."""
    backends = open_backends(services)
    plane = LivePlane(
        settings=services.settings,
        ledger=backends.ledger,
        cluster=backends.cluster,
        url=services.peer_url,
        authenticator=services.authenticator,
        connections=services.connections,
        metrics=services.metrics,
        instance_id=services.instance_id,
        clock=services.clock,
        randomness=services.randomness,
        budget=services.budget,
        tracing=services.tracing,
    )
    for sample in services.live_sample:
        sample.watch(plane.dispatcher)
    neighbours, instance_id = plane.neighbours, services.instance_id
    planes: list[Plane] = []
    if neighbours is not None and plane.shared is not None:
        planes.append(RedisGate(services.settings.cluster, services.clock, plane.shared))
        services.readiness.add("the cluster", neighbours.check_belongs)
    peers = Peers(instance_id, neighbours.roster if neighbours is not None else None)
    return Parts(
        planes=[*planes, peers, plane],
        routers=[
            jobs_router(PREFIX, plane, services, peers),
            nodes_router(PREFIX, plane, services.clock),
            pools_router(PREFIX, plane, services.clock),
            catalog_router(PREFIX, plane.catalog),
            sessions_router(PREFIX, plane, plane.shared, peers, instance_id),
            cluster_router(PREFIX, plane, instance_id),
            stats_router(PREFIX, plane, services.clock),
            metrics_router(PREFIX, plane, services.metrics),
        ],
        sockets={
            "/ws/node": WebSocketApp(plane.node_endpoint),
            "/ws/session": WebSocketApp(plane.session_endpoint),
        },
    )
