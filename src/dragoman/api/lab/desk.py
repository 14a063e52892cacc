"""What the lab's routes work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from dragoman.lab.annotations import Annotations
from dragoman.lab.comparison import Comparisons
from dragoman.lab.evaluators import FunctionProcessPool
from dragoman.lab.library import ImportProgress, Library
from dragoman.lab.live_sample import LiveSample
from dragoman.lab.mirror import Following
from dragoman.lab.plane import Lab
from dragoman.lab.plugins import Context
from dragoman.lab.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDesk:
    """The lab as callers use it: its datasets, its experiments and what came out of them."""

    lab: Lab
    library: Library
    results: Results
    annotations: Annotations
    comparisons: Comparisons
    context: Context
    live_sample: LiveSample
    imports: dict[tuple[str, str], ImportProgress] = field(default_factory=dict)
    """Imports under way that a caller gave an id, by tenant and id."""
    processes: FunctionProcessPool
    """For evaluators that are only tried out."""
    mirror: Following | None = None
    """The columnar copy of results, where there is one."""

    @property
    def is_local(self) -> bool:
        """Whether the lab runs inside its user's program, and so reads what the user may read."""
        return self.context.python_allow is None


async def _desk_of(request: Request) -> LabDesk:
    desk: LabDesk = request.app.state.desk
    return desk


Desk = Annotated[LabDesk, Depends(_desk_of)]
"""A route's parameter: the application keeps its desk at ``app.state.desk``."""
