"""Every test of this folder runs for every keeper of session records."""

from __future__ import annotations

import pytest
from tests.contract.session_records.backends import BACKENDS, KEEP_DELIVERED

from dragoman.live.sessions import SessionRecords


@pytest.fixture(params=BACKENDS)
def records(request: pytest.FixtureRequest) -> SessionRecords:
    """Records that keep KEEP_DELIVERED unacknowledged deliveries."""
    opened: SessionRecords = request.param(KEEP_DELIVERED)
    return opened
