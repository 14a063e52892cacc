"""Refusal is an answer: what to say when no node takes a job, and when to ask again."""

from __future__ import annotations

from collections.abc import Collection

from dragoman import errors
from dragoman.ids import JobId
from dragoman.live.dispatch.selection import Search
from dragoman.live.ledger import Outlook
from dragoman.live.protocol import ErrorInfo, ExclusionReason
from dragoman.live.snapshot import CellView, JobRequirement

_SOONEST_MS = 50
_LATEST_MS = 30_000
_UNKNOWN_MS = 1_000
_REGISTERING_MS = 2_000

NEVER_WAITS = (errors.PairUnsupported, errors.UnsupportedFeature)
"""Refusals that time does not mend."""


def refusal(
    search: Search, outlook: Outlook | None, cold: Collection[int] = ()
) -> errors.DragomanError:
    """The error that says best why no node took the job; cold cells do not know their slots."""
    requirement = search.job.requirement
    kind = _kind(search, cold)
    source, _, target = requirement.shown.partition(":")
    details: dict[str, object] = {
        "reasons": search.main.counts(),
        "src_lang": source,
        "tgt_lang": target,
    }
    if requirement.services:
        details["services"] = dict(requirement.services)
        if kind is errors.NoAvailableNode and not _is_offered(search):
            # The reasons do not tell: a node that is away for a moment counts as not ready.
            details["unoffered"] = dict(requirement.services)
    near = search.snapshot.near(requirement) if kind is errors.PairUnsupported else ()
    if near:
        details["near"] = list(near)
    return kind(
        _message(kind, search, near),
        details=details,
        retry_after_ms=_retry_after_ms(kind, outlook),
    )


def with_job(error: errors.DragomanError, job_id: JobId) -> errors.DragomanError:
    """A refusal names its job, so that it can be explained."""
    error.details["job_id"] = job_id
    if error.retry_after_ms is not None:
        error.details["retry_after_ms"] = error.retry_after_ms
    return error


def as_info(error: errors.DragomanError) -> ErrorInfo:
    return ErrorInfo(error.code, error.message, details=error.details or None)


def as_error(info: ErrorInfo) -> errors.DragomanError:
    """The error a stored refusal was."""
    kind = errors.BY_CODE.get(info.code, errors.InternalError)
    details: dict[str, object] = dict(info.details or {})
    after = details.get("retry_after_ms")
    return kind(
        info.message, details=details, retry_after_ms=after if isinstance(after, int) else None
    )


def _message(kind: type[errors.DragomanError], search: Search, near: tuple[str, ...]) -> str:
    requirement = search.job.requirement
    pair = requirement.shown
    if kind is errors.PairUnsupported:
        described = requirement.kind.value.replace("_", " ")
        message = f"No known node serves {pair}, {described}; register one that does."
        return f"{message} Close to it, {', '.join(near)} would be served." if near else message
    asked = requirement.services
    if asked and kind is errors.NoAvailableNode and not _is_offered(search):
        wanted = ", ".join(f"{stage} {name}" for stage, name in asked)
        return (
            f"No node that serves {pair} has {wanted}, which the job asks for in `services`;"
            " name a service that one has, or leave it out."
        )
    return {
        errors.UnsupportedFeature: (
            f"No node that serves {pair} offers {', '.join(requirement.features)}."
        ),
        errors.NoCapacity: f"Every node that could carry a job for {pair} is full; try again soon.",
        errors.ModelNotAvailable: (
            f"The nodes that serve {pair} lack a model for the moment; try again soon."
        ),
        errors.NoAvailableNode: (
            f"Nodes for {pair} are known, but none can take the job now; details.reasons says why."
        ),
    }[kind]


def _kind(search: Search, cold: Collection[int]) -> type[errors.DragomanError]:
    decision = search.main
    requirement = decision.requirement
    cells = search.snapshot.cells
    views = [
        cells[number] for number in search.snapshot.shards(requirement).cells if number in cells
    ]
    if not views:
        # Nor would waiting help where only a stage lacks a language.
        return errors.NoAvailableNode if cold else errors.PairUnsupported
    if requirement.features and not any(_offering(view, requirement) for view in views):
        return errors.UnsupportedFeature
    if any(decision.fit(view) for view in views if view.number not in cold):
        return errors.NoCapacity
    for view in views:
        lacking = view.lacking(requirement, decision.welcome(view))
        lack_a_model = lacking.pop(ExclusionReason.MODEL_UNAVAILABLE)
        for mask in lacking.values():
            lack_a_model &= ~mask
        if lack_a_model:
            return errors.ModelNotAvailable
    return errors.NoAvailableNode


def _is_offered(search: Search) -> bool:
    """Whether a node of the pool has the services that the job asks for."""
    requirement, cells = search.job.requirement, search.snapshot.cells
    return any(
        view.pool(requirement) & view.offering(requirement)
        for number in search.snapshot.shards(requirement).cells
        if (view := cells.get(number)) is not None
    )


def _offering(view: CellView, requirement: JobRequirement) -> int:
    """The nodes of the pool that offer the features."""
    lacking = view.lacking(requirement)
    return view.pool(requirement) & ~lacking[ExclusionReason.FEATURE_UNSUPPORTED]


def _retry_after_ms(kind: type[errors.DragomanError], outlook: Outlook | None) -> int | None:
    if kind in NEVER_WAITS:
        return None
    if kind is not errors.NoCapacity:
        return _REGISTERING_MS
    if outlook is None or outlook.first_free_ms is None:
        return _UNKNOWN_MS
    return max(_SOONEST_MS, min(_LATEST_MS, outlook.first_free_ms))
