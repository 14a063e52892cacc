"""``GET /settings``: every setting as the server has it, and where its value came from."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from dragoman.api.permissions import require
from dragoman.api.services import Services
from dragoman.auth import Permission
from dragoman.settings import SettingLine, setting_lines

PREFIX = "/api/v1"

GIVEN_BY_PROGRAM = "program"


class SettingShown(BaseModel):
    """One setting."""

    name: str = Field(examples=["server.port"])
    value: Any = Field(description="Passwords and keys in it are stars.")
    default: Any
    source: str = Field(examples=["default", "file /etc/dragoman.toml", "flag --port"])
    meaning: str
    variable: str = Field(description="The environment variable that sets it.")


class SettingList(BaseModel):
    """Every setting of the server that answers, in the order of the reference page."""

    instance_id: str
    items: list[SettingShown]


def settings_router(services: Services) -> APIRouter:
    """For operators and viewers; who may not run the server need not know where its files are."""
    router = APIRouter(
        prefix=f"{PREFIX}/settings",
        tags=["settings"],
        dependencies=[Depends(require(Permission.SETTINGS))],
    )

    @router.get("", summary="Every setting, its value and where that came from")
    async def every() -> SettingList:
        return SettingList(
            instance_id=services.instance_id,
            items=[
                _shown(line, services.sources.get(line.name, GIVEN_BY_PROGRAM))
                for line in setting_lines(services.settings)
            ],
        )

    return router


def _shown(line: SettingLine, source: str) -> SettingShown:
    return SettingShown(
        name=line.name,
        value=line.value,
        default=line.default,
        source=source,
        meaning=line.meaning,
        variable=line.variable,
    )
