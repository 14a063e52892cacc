"""What the lab's routes work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from dragoman.lab.evaluators import ProcessPool
from dragoman.lab.library import Library
from dragoman.lab.mirror import Following
from dragoman.lab.plane import Lab
from dragoman.lab.results import Results
from dragoman.lab.targets import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDesk:
    """The lab as callers use it: its datasets, its experiments and what came out of them."""

    lab: Lab
    library: Library
    results: Results
    context: Context
    processes: ProcessPool
    """For evaluators that are only tried out."""
    mirror: Following | None = None
    """The columnar copy of results, where there is one."""


async def _desk_of(request: Request) -> LabDesk:
    desk: LabDesk = request.app.state.desk
    return desk


Desk = Annotated[LabDesk, Depends(_desk_of)]
"""A route's parameter: the application keeps its desk at ``app.state.desk``."""
