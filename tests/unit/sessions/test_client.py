"""Who speaks for a session's client, as seen from here."""

from __future__ import annotations

from dragoman.ids import ConnectionId, InstanceId
from dragoman.live.sessions import SessionOwner
from dragoman.live.sessions.tools import Client

HERE, THERE = InstanceId("here"), InstanceId("there")
FIRST, SECOND = ConnectionId("c-1"), ConnectionId("c-2")
OWNER = SessionOwner(HERE, FIRST, 4)


def test_its_own_connection_speaks_for_it() -> None:
    assert Client(OWNER).is_spoken_for_by(SessionOwner(HERE, FIRST, 4))


def test_a_connection_that_asked_to_speaks_for_it_as_the_next_owner() -> None:
    client = Client(OWNER)
    assert not client.is_spoken_for_by(SessionOwner(HERE, SECOND, 5))
    client.connections.add(SECOND)
    assert client.is_spoken_for_by(SessionOwner(HERE, SECOND, 5))


def test_another_instance_does_not_whatever_its_connection_is_called() -> None:
    assert not Client(OWNER).is_spoken_for_by(SessionOwner(THERE, FIRST, 5))


def test_no_client_does_that_has_the_session_from_another_owner() -> None:
    client = Client(OWNER)
    client.connections.add(SECOND)
    assert not client.is_spoken_for_by(SessionOwner(HERE, SECOND, 6))
