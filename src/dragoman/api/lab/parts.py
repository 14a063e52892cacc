"""The lab as a part of a server."""

from __future__ import annotations

from dragoman.api.lab.app import DATASETS_PATH, LIST_PUSH_PATH, PUSH_PATH, lab_routers
from dragoman.api.lab.child import LabChild, WayBack
from dragoman.api.lab.exposition import with_those_of_the_lab
from dragoman.api.lab.forwarding import Forwarder, forwarded
from dragoman.api.lab.live_sampling import LiveSampler
from dragoman.api.lab.plane import LabPlane
from dragoman.api.lab.push_forwarding import PushForwarder
from dragoman.api.lab.uploads import MAX_UPLOAD_BYTES
from dragoman.api.live import live_parts
from dragoman.api.parts import Parts
from dragoman.api.services import Services
from dragoman.auth import Permission
from dragoman.lab.live_sample import sample_evaluators


def lab_parts(services: Services) -> Parts:
    """The lab's process, its routes, which are forwarded to it, and its sockets."""
    settings = services.settings
    if not settings.lab.enabled:
        return Parts()
    lent = services.authenticator.lend_to_lab()
    way_back = WayBack(services.own_url, None if lent is None else lent.reveal())
    child = LabChild(settings, services.clock, way_back=way_back)
    services.readiness.add("the lab", child.check, dispensable=True)
    forwarder = Forwarder(child, services.authenticator)
    services.other_metrics.append(lambda own: with_those_of_the_lab(own, forwarder))
    pushes = PushForwarder(
        child,
        services.authenticator,
        settings.server.allowed_origins,
        services.connections,
    )
    sample_evaluators(settings.lab.live_sample.evaluators)  # before anything has begun
    sampler = LiveSampler(settings.lab.live_sample, forwarder, services.metrics)
    services.live_sample.append(sampler)
    permissions = (Permission.DATASETS, Permission.EXPERIMENTS)
    return Parts(
        planes=[LabPlane(child, pushes), sampler],
        routers=lab_routers({one: forwarded(forwarder, one) for one in permissions}),
        sockets={LIST_PUSH_PATH: pushes, PUSH_PATH: pushes},
        larger_bodies={DATASETS_PATH: MAX_UPLOAD_BYTES},
    )


def all_parts(services: Services) -> Parts:
    """Both planes."""
    lab = lab_parts(services)
    return live_parts(services) + lab
