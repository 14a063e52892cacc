"""How an HTTP target is described, and whether the description can work."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated

import httpx
import msgspec

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.lab.model import JsonValue
from dragoman.lab.targets.columns import require_column
from dragoman.lab.targets.context import Context
from dragoman.lab.targets.http.addresses import AddressRules
from dragoman.lab.targets.http.json_path import JsonPath
from dragoman.lab.targets.http.templates import places

HISTORY = "history"
"""The place that receives the turns before: ``[{"turn": {...}, "output": ...}]``."""

_ORIGIN = re.compile(r"https?://[^/?#\s%]+(?=[/?#]|$)", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked, and where in the answer the output is."""

    url: str
    """Where to ask; ``{{column}}`` may stand in its path and query."""
    output: str | dict[str, str]
    """JSONPath of the output, or several by name; the first, or ``output``, is the main one."""
    body: JsonValue = None
    """Any JSON; ``{{column}}`` in its strings is filled from the turn."""
    method: Annotated[str, msgspec.Meta(pattern="^(GET|POST|PUT|PATCH|DELETE)$")] = "POST"
    headers: dict[str, str] = {}
    tokens: str | None = None
    """JSONPath of the number of tokens used."""
    cost: str | None = None
    """JSONPath of the cost."""
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] = 120.0


def check(settings: Settings, columns: Collection[str], context: Context) -> None:
    """Refuse what cannot work or is not allowed."""
    _check_url(settings.url, context)
    for where, path in _paths(settings):
        try:
            JsonPath(path)
        except ValueError as error:
            raise _unusable(where, str(error)) from None
    for name, value in settings.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise _unusable(f"target.headers.{name}", "not a header; use ASCII without line ends")
    for where, template in (("target.url", settings.url), ("target.body", settings.body)):
        for name in places(template):
            require_column(name, [*columns, HISTORY], where)


def _check_url(url: str, context: Context) -> None:
    origin = _ORIGIN.match(url)
    if origin is None or "{{" in origin[0]:
        raise _unusable(
            "target.url", "expected http://host/... or https://host/..., with the host written out"
        )
    try:
        parsed = httpx.URL(url.replace("{{", "").replace("}}", ""))
    except httpx.InvalidURL as error:
        raise _unusable("target.url", str(error)) from None
    if parsed.userinfo:
        raise _unusable("target.url", "it holds a password; send it in `headers`")
    if AddressRules.of(context).refuse(parsed.host):
        raise Forbidden(
            f"`target.url` calls {parsed.host}, which is private; "
            "list it in lab.http_allow if experiments may call it.",
            details={"field": "target.url"},
        )


def _paths(settings: Settings) -> list[tuple[str, str]]:
    outputs = settings.output
    found = (
        [("target.output", outputs)]
        if isinstance(outputs, str)
        else [(f"target.output.{name}", path) for name, path in outputs.items()]
    )
    if not found:
        raise _unusable("target.output", "expected at least one path")
    if settings.tokens is not None:
        found.append(("target.tokens", settings.tokens))
    if settings.cost is not None:
        found.append(("target.cost", settings.cost))
    return found


def _unusable(where: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {reason}.", details={"field": where})
