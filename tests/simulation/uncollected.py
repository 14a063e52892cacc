"""Sessions that are over and stay in memory all the same."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.live.sessions import Session, Sessions


@contextmanager
def only_new_looked_at() -> Iterator[None]:
    """The collector looks at what is made from now on: at all of a test run it would take long."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def uncollected_sessions(sessions: Sessions) -> list[Session]:
    """Sessions of the instance that it does not know any more, and that something still holds.

    Jobs hide what they hold from the collector of cycles: a session that waits for a job which
    waits for the session would stay for ever.
    """
    of_instance: Any = sessions
    while gc.collect():
        pass  # What a job held is seen when the job is gone.
    return [
        found
        for found in gc.get_objects()
        if type(found) is Session
        and found._context is of_instance._context
        and found.session_id not in of_instance._open
    ]
