"""What the audit log keeps of requests: who asked for which action, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api.permissions import known_principal
from dragoman.audit import AuditEntry, AuditLog, AuditOutcome
from dragoman.auth import Principal, Role, remote_address
from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.ids import InstanceId, new_id

PREFIX = "/api/v1"

AUDITED: Mapping[tuple[str, str], str] = {
    ("POST", "/sign-in"): "sign_in",
    ("GET", "/sign-in/oidc/callback"): "sign_in",
    ("POST", "/sign-out"): "sign_out",
    ("POST", "/nodes/{node_id}/drain"): "node.drain",
    ("POST", "/nodes/{node_id}/resume"): "node.resume",
    ("POST", "/nodes/{node_id}/shutdown"): "node.shutdown",
    ("DELETE", "/sessions/{session_id}"): "session.end",
    ("DELETE", "/jobs/{job_id}"): "job.cancel",
    ("PUT", "/glossary"): "glossary.set",
    ("DELETE", "/glossary"): "glossary.remove",
    ("POST", "/cluster/dead-letters/{letter_id}/replay"): "dead_letter.replay",
    ("DELETE", "/cluster/dead-letters/{letter_id}"): "dead_letter.drop",
    ("DELETE", "/datasets/{dataset_id}"): "dataset.delete",
    ("PATCH", "/experiments/{experiment_id}"): "experiment.change",
    ("DELETE", "/experiments/{experiment_id}"): "experiment.delete",
    ("POST", "/experiments/{experiment_id}/kill"): "experiment.kill",
    ("PUT", "/experiments/{experiment_id}/pace"): "experiment.pace",
    ("DELETE", "/experiments/{experiment_id}/annotations/{annotation_id}"): "annotation.delete",
    ("POST", "/lab/mirror/rebuild"): "lab.rebuild_mirror",
    ("DELETE", "/lab/cache"): "lab.clear_cache",
}
"""What is kept, by method and path, and the name of the action."""

ORDINARY = frozenset(
    {
        ("POST", "/jobs"),
        ("POST", "/jobs/check"),
        ("POST", "/datasets"),
        ("POST", "/datasets/{dataset_id}/versions"),
        ("POST", "/experiments"),
        ("POST", "/experiments/submit"),
        ("POST", "/experiments/estimate"),
        ("POST", "/experiments/{experiment_id}/runs"),
        ("POST", "/experiments/{experiment_id}/score"),
        ("POST", "/experiments/{experiment_id}/invoke"),
        ("POST", "/experiments/{experiment_id}/finish"),
        ("POST", "/experiments/{experiment_id}/clone"),
        ("POST", "/experiments/{experiment_id}/results"),
        ("POST", "/experiments/{experiment_id}/annotations"),
        ("POST", "/experiments/compare"),
        ("POST", "/experiments/compare/report"),
        ("POST", "/evaluators/try"),
    }
)
"""What is not: work that callers bring, which has records of its own, and questions."""

_WORK = frozenset({"job.cancel"})
"""What a client does with its own work: kept only when the key of an operator does it."""

_FACTS = "dragoman.audit_facts"
_REFUSED = range(400, 500)


def _patterns() -> dict[str, list[tuple[re.Pattern[str], str]]]:
    found: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for (method, template), action in AUDITED.items():
        path = re.sub(r"\\{\w+\\}", "(.+)", re.escape(template))
        found.setdefault(method, []).append((re.compile(f"{PREFIX}{path}", re.DOTALL), action))
    # An id may hold a slash: the longer path is the one that is meant.
    for patterns in found.values():
        patterns.sort(key=lambda one: len(one[0].pattern), reverse=True)
    return found


_PATTERNS = _patterns()


def action_of(method: str, path: str) -> tuple[str, str] | None:
    """The action that a request asks for, and its subject; None for what is not kept."""
    for pattern, action in _PATTERNS.get(method, ()):
        if (found := pattern.fullmatch(path)) is not None:
            return action, "/".join(found.groups())
    return None


def note(request: Request, **facts: object) -> None:
    """Have the entry of this request tell more, such as whose glossary was changed."""
    request.scope.setdefault(_FACTS, {}).update(facts)


class AuditTrail:
    """Keeps who asked for which action and how it ended, before the answer leaves.

    A request of no known caller is not kept: it changes nothing, and anyone could fill the
    database with such.
    """

    def __init__(
        self, app: ASGIApp, log: AuditLog, clock: Clock, random: Random, instance_id: InstanceId
    ) -> None:
        self._app = app
        self._log = log
        self._clock = clock
        self._random = random
        self._instance_id = instance_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = action_of(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if asked is None:
            await self._app(scope, receive, send)
            return
        if asked[0] not in _WORK:
            self._log.check_room()
        kept = False

        async def keep(status: int) -> None:
            nonlocal kept
            principal = known_principal(scope)
            if not kept and principal is not None and _is_kept(asked[0], principal):
                kept = True
                await self._log.record(self._entry(scope, principal, *asked, status))

        async def send_once_kept(message: Message) -> None:
            if message["type"] == "http.response.start":
                await keep(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_once_kept)
        except BaseException as error:
            # Also when the caller hung up: the action may have been carried out.
            await keep(error.status if isinstance(error, DragomanError) else 500)
            raise

    def _entry(
        self, scope: Scope, principal: Principal, action: str, subject: str, status: int
    ) -> AuditEntry:
        facts: dict[str, Any] = {"status": status, "instance": self._instance_id}
        if principal.sign_in_id is not None:
            facts["browser"] = True
        return AuditEntry(
            entry_id=new_id(self._random, "e"),
            at_ms=self._clock.now_ms(),
            actor=principal.key_id or "anyone",
            role=principal.role.value,
            tenant=principal.tenant,
            address=remote_address(scope),
            action=action,
            subject=subject,
            outcome=_outcome(status),
            facts={**facts, **scope.get(_FACTS, {})},
        )


def _is_kept(action: str, principal: Principal) -> bool:
    by_operator = principal.role is Role.OPERATOR and not principal.anonymous
    return action not in _WORK or by_operator


def _outcome(status: int) -> AuditOutcome:
    if status < _REFUSED.start:
        return AuditOutcome.DONE
    return AuditOutcome.REFUSED if status in _REFUSED else AuditOutcome.FAILED
