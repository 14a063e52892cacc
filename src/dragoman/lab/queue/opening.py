"""Which queue the settings name."""

from __future__ import annotations

from dragoman.clock import Clock
from dragoman.errors import SettingsError
from dragoman.extras import require_extra
from dragoman.lab.queue.in_process import InProcessQueue
from dragoman.lab.queue.interface import Queue
from dragoman.lab.queue.remote import RemoteQueue
from dragoman.store import open_notifications

IN_PROCESS = ""
DATABASE = "database"


def open_queue(queue_url: str, database_url: str, origin: str, clock: Clock) -> Queue:
    """The queue that `lab.queue_url` names; nothing is sent yet. Close it with `close`.

    `origin` names this process to the others.
    """
    if queue_url == IN_PROCESS:
        return InProcessQueue()
    if queue_url == DATABASE:
        from dragoman.lab.queue.postgres import PostgresLink  # an extra

        notifications = open_notifications(database_url)
        if notifications is None:
            raise SettingsError(
                'lab.queue_url = "database" needs PostgreSQL, which can notify; set '
                "lab.queue_url to a Redis server (redis://host:6379), or store.database_url to a "
                "PostgreSQL database."
            )
        return RemoteQueue(PostgresLink(notifications), origin, clock)
    require_extra("cluster", "A Redis queue (lab.queue_url)")
    from dragoman.lab.queue.redis_streams import RedisLink  # an extra

    link = RedisLink(queue_url)
    return RemoteQueue(link, origin, clock, source=link)
