"""The live plane as a part of a server."""

from __future__ import annotations

from dragoman.api.alerts import AlertWatch, alerts_router
from dragoman.api.live.attempts import attempts_router
from dragoman.api.live.catalog import catalog_router
from dragoman.api.live.cluster import cluster_router
from dragoman.api.live.console import ConsoleFeed, ConsoleSocket
from dragoman.api.live.glossary import glossary_router
from dragoman.api.live.history import history_router
from dragoman.api.live.jobs import jobs_router
from dragoman.api.live.ledgers import open_backends
from dragoman.api.live.metrics import metrics_router
from dragoman.api.live.nodes import nodes_router
from dragoman.api.live.peers import Peers
from dragoman.api.live.pools import pools_router
from dragoman.api.live.redis_gate import RedisGate
from dragoman.api.live.sessions import sessions_router
from dragoman.api.live.stats import stats_router
from dragoman.api.live.usage import usage_router
from dragoman.api.parts import Parts, Plane
from dragoman.api.services import Services
from dragoman.glossary import Glossaries, GlossaryRules, GlossaryStore
from dragoman.ids import new_id
from dragoman.live.gateway import ListenApp, LivePlane, WebSocketApp
from dragoman.usage import UsageStore, UsageTally, UsageWriter

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
    words = services.settings.scheduler.glossary
    glossary_store = GlossaryStore(services.store, services.clock, words.terms_per_tenant)
    glossaries = Glossaries(
        glossary_store,
        GlossaryRules(words.terms_per_job, words.bytes_per_job, words.refresh_seconds),
    )
    plane.dispatcher.use_glossaries(glossaries.by_tenant)
    tally = UsageTally(services.clock)
    # A name of its own for each start: totals are those of one process.
    counted_by = new_id(services.randomness.stream("usage"), "u")
    usage_store = UsageStore(services.store, counted_by)
    usage_writer = UsageWriter(tally, usage_store)
    plane.dispatcher.count_usage(tally.count)
    for sample in services.live_sample:
        sample.watch(plane.dispatcher)
    member, instance_id = plane.member, services.instance_id
    planes: list[Plane] = []
    if member is not None and plane.shared is not None:
        planes.append(RedisGate(services.settings.cluster, services.clock, plane.shared))
        services.readiness.add("the cluster", member.check_belongs)
        services.readiness.add_warning(member.roster.disagreement)
    peers = Peers(instance_id, member.roster if member is not None else None)
    feed = ConsoleFeed(plane, instance_id, services.metrics, services.clock, services.randomness)
    consoles = ConsoleSocket(
        feed,
        services.authenticator,
        services.settings.server.allowed_origins,
        services.connections,
    )
    watch = AlertWatch(services)
    return Parts(
        planes=[*planes, usage_writer, glossaries, peers, plane, feed, consoles, watch],
        routers=[
            jobs_router(PREFIX, plane, services, peers),
            attempts_router(PREFIX, plane, peers, instance_id),
            nodes_router(PREFIX, plane, services.clock),
            pools_router(PREFIX, plane, services.clock),
            catalog_router(PREFIX, plane.catalog),
            glossary_router(PREFIX, glossary_store, glossaries),
            usage_router(PREFIX, usage_store, usage_writer),
            sessions_router(PREFIX, plane, plane.shared, peers, instance_id),
            cluster_router(PREFIX, plane, instance_id),
            stats_router(PREFIX, plane, services.clock),
            history_router(PREFIX, plane.dispatcher.history, peers),
            metrics_router(PREFIX, plane, services.metrics),
            alerts_router(services, watch),
        ],
        sockets={
            "/ws/node": WebSocketApp(plane.node_endpoint),
            "/ws/session": WebSocketApp(plane.session_endpoint),
            "/ws/listen/{session_id}": ListenApp(plane.listen_endpoint),
            "/ws/console": consoles,
        },
    )
