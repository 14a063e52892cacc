"""What dispatch tells about itself: metrics, log events and spans, in one place."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from math import inf
from typing import Final, Protocol

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.dispatch.canary import CanaryRoute
from dragoman.live.dispatch.history import COUNT_AT, EndedJob, JobHistory
from dragoman.live.dispatch.job import LIVE, SUCCESS, Job, Progress
from dragoman.live.dispatch.selection import Decision
from dragoman.live.ledger import StaleReason
from dragoman.live.protocol import ExclusionReason, JobClass, Outcome
from dragoman.observability import Metrics, Trace, Tracing, get_logger

RATE_WINDOW_SECONDS = 10
"""Over how long the rate of requests is taken."""

EXAMPLES = 5
"""How many nodes are named for a reason."""

PAIRS_COUNTED = 500
"""Clients name languages freely; beyond this many pairs, refusals are counted together."""

OTHER_PAIRS = "*"

_EXAMPLES_EVERY_SECONDS = 1.0


class Rate:
    """How often something happens a second, over the last whole seconds."""

    def __init__(self, window_seconds: int = RATE_WINDOW_SECONDS) -> None:
        self._window_seconds = window_seconds
        self._seconds: deque[list[int]] = deque(maxlen=window_seconds + 1)
        """A second, and how often it happened within it; the newest last."""
        self.current = [0, 0]
        self.second_ends = -inf
        """Until then `current[1]` may be counted up without a call."""

    def add(self, now: float) -> None:
        if now >= self.second_ends:
            self.begin_second(now)
        self.current[1] += 1

    def begin_second(self, now: float) -> None:
        """A new second has begun: it is counted by itself."""
        second = int(now)
        self.current = [second, 0]
        self._seconds.append(self.current)
        self.second_ends = second + 1.0

    def per_second(self, now: float) -> float:
        """The second that is still going on counts, too, so that a first burst shows at once."""
        after = int(now) - self._window_seconds
        counted = sum(count for second, count in self._seconds if second > after)
        return counted / self._window_seconds


class Tally:
    """Jobs made and ended, requests a second, and nodes left out with the reason."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self.rate = Rate()
        self._examples_due = 0.0
        self.created = 0
        self.succeeded = 0
        self.failed = 0
        self.refused: Counter[str] = Counter()
        """Jobs refused, by error code."""
        self.refused_pairs: Counter[str] = Counter()
        """The same by language pair; beyond `PAIRS_COUNTED` of them, as `OTHER_PAIRS`."""
        self.refused_reasons: Counter[str] = Counter()
        """Jobs refused, by each reason for which nodes were left out."""
        self.times_left_out: Counter[str] = Counter()
        """How often a node was left out, by reason."""
        self.examples: dict[str, tuple[NodeId, ...]] = {}
        """Some nodes that were left out lately, by reason."""

    def asked(self) -> None:
        """A caller asked for a job."""
        self.asked_at(self._clock.monotonic())

    def asked_at(self, now: float) -> None:
        """The same, by a look at the clock that was taken already."""
        self.rate.add(now)

    @property
    def asked_per_second(self) -> float:
        return self.rate.per_second(self._clock.monotonic())

    def job_refused(self, code: str, pair: str) -> None:
        """A caller was told that no node takes its job."""
        self.refused[code] += 1
        is_counted = pair in self.refused_pairs or len(self.refused_pairs) < PAIRS_COUNTED
        self.refused_pairs[pair if is_counted else OTHER_PAIRS] += 1

    def left_out(self, decision: Decision) -> None:
        """Count the nodes that a decision left out."""
        reasons = set()
        for _, reason, mask in decision.left_out():
            reasons.add(reason)
            self.count_left_out(reason, mask.bit_count())
        if reasons:
            self.show_examples(decision, reasons)

    def count_left_out(self, reason: str, count: int) -> None:
        self.times_left_out[reason] += count
        self._metrics.dispatch_exclude.labels(reason).inc(count)

    def show_examples(self, decision: Decision, reasons: Collection[str]) -> None:
        """Name some of the nodes a decision left out; once in a while, or for a new reason."""
        now = self._clock.monotonic()
        if now < self._examples_due and self.examples.keys() >= set(reasons):
            return
        self._examples_due = now + _EXAMPLES_EVERY_SECONDS
        found: dict[ExclusionReason, list[NodeId]] = {}
        for view, reason, mask in decision.left_out():
            named = found.setdefault(reason, [])
            if len(named) < EXAMPLES:
                named += view.node_ids(mask)
        self.examples |= {reason: tuple(named[:EXAMPLES]) for reason, named in found.items()}


log = get_logger("dragoman.dispatch")

_FAILED: Final = Outcome.FAILED

_SELECTORS: dict[type[errors.DragomanError], str] = {
    errors.UnsupportedFeature: "features",
    errors.NoCapacity: "reserve",
}

_STEP_NAMES: dict[Progress, str] = {
    Progress.DISPATCHED: "dispatched",
    Progress.ACCEPTED: "acked",
    Progress.RUNNING: "running",
    Progress.FAILOVER: "failover",
}
"""What a step of a job is called in its span."""


class CatalogPort(Protocol):
    """The service catalog, as far as it counts jobs."""

    @property
    def state(self) -> CatalogStatePort: ...
    def job_ended(self, outcome: Outcome) -> None:
        """A job ended while the catalog could not be fetched."""
        ...


class CatalogStatePort(Protocol):
    @property
    def fail_count(self) -> int: ...


class DispatchTelemetry:
    """Counts and logs what happens to jobs."""

    def __init__(
        self,
        metrics: Metrics,
        tally: Tally,
        tracing: Tracing | None,
        catalog: CatalogPort,
        history: JobHistory,
    ) -> None:
        self._metrics = metrics
        self.tally = tally
        self._history = history
        self.tracing = tracing
        self._catalog = catalog
        self.latency = metrics.dispatch_latency.observe
        self._duration = metrics.job_duration.observe
        self._live_successes = metrics.jobs.labels(JobClass.LIVE, Outcome.SUCCESS)

    # --- looking for a node ---------------------------------------------------------------------

    def chose(self, decision: Decision) -> None:
        """A node was chosen: those left out of the cells looked at are counted."""
        if not decision.left_none_out:
            self.tally.left_out(decision)

    def found_none(self, decision: Decision, error: errors.DragomanError) -> None:
        """No node was fit and free now. The job may yet wait: its refusal is what counts."""
        self.tally.show_examples(decision, error.details.get("reasons", {}))

    def refused(self, job: Job, error: errors.DragomanError, now: float) -> None:
        reasons = error.details.get("reasons", {})
        selector = _SELECTORS.get(type(error), "models")
        for reason in reasons or (error.code,):
            self._metrics.no_available_node.labels(selector, reason).inc()
        self.tally.refused_reasons.update(reasons.keys())
        for reason, count in reasons.items():
            self.tally.count_left_out(reason, count)
        self.tally.job_refused(error.code, job.requirement.shown)
        self._history.refused(job.requirement.shown, now)
        log.warning_limited(
            "no_available_node",
            key=error.code,
            every_seconds=1,
            job_id=job.job_id,
            pair=job.requirement.shown,
            code=error.code,
            reasons=reasons,
        )

    # --- on its way -----------------------------------------------------------------------------

    def failed_over(self, job: Job, node_id: NodeId, code: str) -> None:
        self._metrics.failover.labels(code).inc()
        progressed(job, Progress.FAILOVER)
        log.info("failover", **{"job_id": job.job_id, "from": node_id, "code": code})

    def attempt_failed(self, node_id: NodeId, now: float) -> None:
        """A node failed an attempt; whether another one gets the job is not said."""
        self._history.attempt_failed(node_id, now)

    def dropped(self, reason: StaleReason) -> None:
        """A result that no job waits for."""
        self._metrics.results_dropped.labels(reason).inc()

    def ended(self, job: Job, now: float) -> None:
        outcome = job.outcome or _FAILED
        if outcome is SUCCESS:
            self.tally.succeeded += 1
        elif outcome is _FAILED:
            self.tally.failed += 1
        if outcome is SUCCESS and job.spec.job_class is LIVE:
            # Nearly all are of this kind, and looking a counter up costs more than all the rest.
            self._live_successes.value += 1
        else:
            self._metrics.jobs.labels(job.spec.job_class, outcome).inc()
        if self._catalog.state.fail_count:
            self._catalog.job_ended(outcome)
        took_seconds = now - job.started
        self._duration(took_seconds)
        seat, ended = job.seat, self._history.ended
        ended.append(
            EndedJob(
                job.requirement.shown,
                seat.node_id if seat is not None else None,
                outcome is _FAILED,
                now,
                took_seconds,
                job.finished_ms - (job.accepted_ms or job.dispatched_ms),
            )
        )
        if len(ended) >= COUNT_AT:
            self._history.count()
        if job.drawn_for is not None:
            self._drawn_ended(job, job.drawn_for, outcome)
        if job.trace is not None:
            used = len(job.past or ()) + (job.seat is not None)
            job.trace.event("finished", outcome=outcome.value, attempts=used)
            job.trace.end(job.error.code if job.error is not None else None)

    def _drawn_ended(self, job: Job, route: CanaryRoute, outcome: Outcome) -> None:
        """A job that was drawn for a canary is counted once, by what the canary made of it."""
        made = outcome.value if job.on_canary else "failed" if job.left_canary else "elsewhere"
        stage, service = route.service
        self._metrics.canary_jobs.labels(":".join(route.pair), stage, service, made).inc()

    # --- spans ----------------------------------------------------------------------------------

    def entered(self, job: Job) -> None:
        """A new job was claimed: its span begins."""
        assert self.tracing is not None, "asked only while tracing is on"
        spec = job.spec
        trace: Trace = self.tracing.begin(
            "job",
            spec.trace_id,
            parent=job.parent_span,
            began=job.started,
            attributes={
                "dragoman.job_id": job.job_id,
                "dragoman.request_id": spec.request_id,
                "dragoman.tenant": spec.tenant,
                "dragoman.class": spec.job_class.value,
                "dragoman.pair": f"{spec.src_lang}:{spec.tgt_lang}",
                "dragoman.trace_id": spec.trace_id,
            },
        )
        trace.event("received", at=job.started)
        trace.event("claimed")
        job.trace = trace


def progressed(job: Job, progress: Progress) -> None:
    """Tell watchers that the job took a step."""
    if job.trace is not None:
        job.trace.event(_STEP_NAMES[progress])
    if job.watched and job.owner is not None:
        job.owner.job_progressed(job, progress)
    if job.on_progress is not None:
        job.on_progress(progress, job.job_id)
