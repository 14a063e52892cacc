"""The services that a job asks for by name: one for each stage, of a version or of any."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

from msgspec import Meta

from dragoman.errors import InvalidMessage
from dragoman.live.protocol.fields import Label
from dragoman.live.protocol.parts import Service
from dragoman.live.protocol.problems import MessageProblem
from dragoman.live.protocol.vocabulary import ServiceType

_LONGEST_NAME = 400
"""A service_id, an at sign and a version."""

ChosenServices = Annotated[
    Mapping[Label, Annotated[str, Meta(max_length=_LONGEST_NAME)]], Meta(max_length=16)
]
"""For each stage, ``service_id`` or ``service_id@version``."""

_STAGES = tuple(kind.value for kind in ServiceType)

NamedService = tuple[str, str]
"""A stage, and a service by one of its names."""

NamedServices = tuple[NamedService, ...]
"""What a job asks for, in the order of the stages' names."""


def service_names(service: Service) -> tuple[str, ...]:
    """What a job may call a service: by its id, and by its id and version."""
    if not service.version:
        return (service.service_id,)
    return service.service_id, f"{service.service_id}@{service.version}"


def check_services(chosen: Mapping[str, str] | None, field: str = "services") -> None:
    """Refuse a choice for what is no stage, or of what cannot be the name of a service."""
    for stage, name in (chosen or {}).items():
        if stage not in _STAGES:
            raise _bad(field, f"names `{stage}`, which is no stage; there are {', '.join(_STAGES)}")
        if not is_service_name(name):
            raise _bad(
                f"{field}.{stage}",
                f"is `{name}`; write service_id, or service_id@version for one version of it",
            )


def is_service_name(name: str) -> bool:
    """Whether a text can be ``service_id`` or ``service_id@version``."""
    return bool(name) and name.isprintable() and not (name[0] in " @" or name[-1] in " @")


def services_of(types: Collection[ServiceType], *chosen: Mapping[str, str] | None) -> NamedServices:
    """What a job that needs these types asks for: for each, the first of the choices that has
    one. A choice for a stage that the job does not go through is of no effect."""
    found: dict[str, str] = {}
    for one in reversed(chosen):
        found.update(one or {})
    used = {kind.value for kind in types}
    return tuple((stage, found[stage]) for stage in sorted(found) if stage in used)


def _bad(field: str, says: str) -> InvalidMessage:
    return InvalidMessage(
        f"`{field}` {says}", details={"problem": MessageProblem.BAD_FIELD.value, "field": field}
    )
