"""The distribution of tests among the workers of pytest-xdist."""

from __future__ import annotations

from tests.places import piece_of
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]


class Distribution(LoadScopeScheduling):  # type: ignore[misc]
    """As `--dist loadfile`, but for files whose tests have nothing in common."""

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(nodeid)
