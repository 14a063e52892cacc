"""Refusal is an answer: what to say when no node takes a job, and when to ask again."""

from __future__ import annotations

from dragoman import errors
from dragoman.ids import JobId
from dragoman.live.dispatch.choice import Decision
from dragoman.live.ledger import Outlook
from dragoman.live.protocol import ErrorInfo, ExclusionReason
from dragoman.live.snapshot import CellView, Requirement

_SOONEST_MS = 50
_LATEST_MS = 30_000
_UNKNOWN_MS = 1_000
_REGISTERING_MS = 2_000

NEVER_WAITS = (errors.PairUnsupported, errors.UnsupportedFeature)
"""Refusals that time does not mend."""


def refusal(
    decision: Decision, outlook: Outlook | None, *, cold: frozenset[int] = frozenset()
) -> errors.DragomanError:
    """The error that says best why no node took the job; cold cells do not know their slots."""
    requirement = decision.requirement
    pair = requirement.shown
    kind = _kind(decision, cold)
    source, _, target = pair.partition(":")
    details: dict[str, object] = {
        "reasons": decision.counts(),
        "src_lang": source,
        "tgt_lang": target,
    }
    near: tuple[str, ...] = ()
    if kind is errors.PairUnsupported:
        near = decision.snapshot.near(requirement)
        if near:
            details["near"] = list(near)
    message = {
        errors.PairUnsupported: _unsupported(requirement, near),
        errors.UnsupportedFeature: (
            f"No node that serves {pair} offers {', '.join(requirement.features)}."
        ),
        errors.NoCapacity: f"Every node that could run a job for {pair} is full; try again soon.",
        errors.ModelNotAvailable: (
            f"The nodes that serve {pair} lack a model for the moment; try again soon."
        ),
        errors.NoAvailableNode: (
            f"Nodes for {pair} are known, but none can take the job now; details.reasons says why."
        ),
    }[kind]
    return kind(
        message,
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


def _kind(decision: Decision, cold: frozenset[int]) -> type[errors.DragomanError]:
    requirement = decision.requirement
    cells = decision.snapshot.cells
    shards = decision.snapshot.shards(requirement)
    views = [cells[number] for number in shards.cells if number in cells]
    if not views:
        # Nor would waiting help where only a stage lacks a language.
        return errors.NoAvailableNode if cold else errors.PairUnsupported
    if requirement.features and not any(_offering(view, requirement) for view in views):
        return errors.UnsupportedFeature
    if any(decision.fit(view) for view in views if view.number not in cold):
        return errors.NoCapacity
    if any(_lacks_only_unmarked(view, decision) for view in views):
        return errors.ModelNotAvailable
    return errors.NoAvailableNode


def _unsupported(requirement: Requirement, near: tuple[str, ...]) -> str:
    """What no node serves, and what comes close."""
    kind = requirement.kind.value.replace("_", " ")
    message = f"No known node serves {requirement.shown}, {kind}; register one that does."
    if near:
        return f"{message} Close to it, {', '.join(near)} would be served."
    return message


def _offering(view: CellView, requirement: Requirement) -> int:
    lacking = view.lacking(requirement)
    return view.pool(requirement) & ~lacking[ExclusionReason.FEATURE_UNSUPPORTED]


def _lacks_only_unmarked(view: CellView, decision: Decision) -> int:
    lacking = view.lacking(decision.requirement, decision.welcome(view))
    found = lacking.pop(ExclusionReason.MODEL_UNAVAILABLE)
    for mask in lacking.values():
        found &= ~mask
    return found


def _retry_after_ms(kind: type[errors.DragomanError], outlook: Outlook | None) -> int | None:
    if kind in NEVER_WAITS:
        return None
    if kind is not errors.NoCapacity:
        return _REGISTERING_MS
    if outlook is None or outlook.first_free_ms is None:
        return _UNKNOWN_MS
    return max(_SOONEST_MS, min(_LATEST_MS, outlook.first_free_ms))
