"""The way to Redis: one server or a Cluster, every call answered or refused within a time.

Needs the extra `cluster`; rooms that can do without Redis import this one only when asked to.
"""

from dragoman.redis_servers.gathering import Caller
from dragoman.redis_servers.line import Call, Line, Plain, Request, Script
from dragoman.redis_servers.operations import Operations, Tag
from dragoman.redis_servers.servers import Command, Reply, Servers, open_servers
from dragoman.redis_servers.subscription import Subscription

__all__ = [
    "Call",
    "Caller",
    "Command",
    "Line",
    "Operations",
    "Plain",
    "Reply",
    "Request",
    "Script",
    "Servers",
    "Subscription",
    "Tag",
    "open_servers",
]
