"""Canaries: a share of a pair's jobs is sent to one version of a service, to try it out.

A job is drawn for a canary once, when it is submitted. It goes to the canary's nodes if one of them
has a free slot, and otherwise where it would have gone. When the canary fails it, the attempt does
not count, whatever the node said, and the job goes on without the canary. Jobs that were not drawn
leave the nodes alone that have nothing but the canary for its stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from dragoman.live.dispatch.job import Job
from dragoman.live.ledger import Ending
from dragoman.live.protocol import NamedService
from dragoman.live.snapshot import JobRequirement, Pair, Requirements

_REMEMBERED = 1_024
"""Requirements whose plan is remembered; past it, all are worked out anew."""


class CanaryRoute(msgspec.Struct, frozen=True):
    """A share of a pair's jobs, and the service that it is for; from the settings."""

    pair: Pair
    """In the form in which languages are compared."""
    service: NamedService
    share: float


class CanaryPlan(msgspec.Struct, frozen=True):
    """What the routes mean for the jobs of one requirement."""

    canaries: tuple[tuple[int, JobRequirement], ...]
    """Each route's number, and what its nodes must have."""
    steady: JobRequirement
    """For jobs that go to no canary."""


class Canaries:
    """Draws jobs for canaries, so that each route has its share of them."""

    def __init__(
        self, routes: Sequence[CanaryRoute], requirements: Requirements, random: Random
    ) -> None:
        self._routes = tuple(route for route in routes if route.share > 0)
        self._requirements = requirements
        self._random = random
        self._owed = [0.0] * len(self._routes)
        """How many jobs of its share each route has not had."""
        self._plans: dict[JobRequirement, CanaryPlan | None] = {}

    def __bool__(self) -> bool:
        return bool(self._routes)

    def plan(self, requirement: JobRequirement) -> CanaryPlan | None:
        """What the routes mean for the jobs of a requirement; None: nothing."""
        if requirement not in self._plans:
            if len(self._plans) >= _REMEMBERED:
                self._plans.clear()
            self._plans[requirement] = self._plan(requirement)
        return self._plans[requirement]

    def draw(self, job: Job) -> None:
        """Decide whether a new job goes to a canary."""
        if job.spec.preferred_node_id is not None:
            return  # The caller has chosen.
        if job.route is not None and job.route.affinity_node is not None:
            return  # A sentence is finished where it began.
        plan = self.plan(job.requirement)
        for number, requirement in plan.canaries if plan is not None else ():
            # What is owed is the chance: the share is exact over many jobs, and no rhythm of
            # jobs decides which of them are drawn.
            self._owed[number] += self._routes[number].share
            if job.canary is None and self._random.random() < self._owed[number]:
                self._owed[number] -= 1
                job.canary, job.drawn_for = requirement, self._routes[number]

    def _plan(self, requirement: JobRequirement) -> CanaryPlan | None:
        stages = {kind.value for kind in requirement.types}
        stages -= {stage for stage, _ in requirement.services}
        found = [
            (number, route.service)
            for number, route in enumerate(self._routes)
            if route.pair == requirement.pair and route.service[0] in stages
        ]
        if not found:
            return None
        return CanaryPlan(
            tuple((number, self._with(requirement, service)) for number, service in found),
            self._requirements.of(
                requirement.written,
                requirement.pipeline,
                requirement.features,
                requirement.services,
                tuple(sorted({service for _, service in found})),
            ),
        )

    def _with(self, requirement: JobRequirement, service: NamedService) -> JobRequirement:
        return self._requirements.of(
            requirement.written,
            requirement.pipeline,
            requirement.features,
            tuple(sorted((*requirement.services, service))),
        )


def forgiven(ending: Ending) -> Ending:
    """How an attempt of a canary ended: what the node calls the job's own fault may be its own."""
    error = ending.error
    if error is None or error.retryable:
        return ending
    return msgspec.structs.replace(ending, error=msgspec.structs.replace(error, retryable=True))
