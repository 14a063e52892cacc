"""The way to Redis: one server or a Cluster, every call answered or refused within a time.

Needs the extra `cluster`; rooms that can do without Redis import this one only when asked to.
"""

from dragoman.redis_servers.connection import Reply
from dragoman.redis_servers.fitness import OLDEST_REDIS, Misfit, ServerFacts, ask_redis, misfit
from dragoman.redis_servers.gathering import Caller
from dragoman.redis_servers.operations import Operations, Tag
from dragoman.redis_servers.requests import (
    Call,
    Command,
    FunctionCall,
    Library,
    Plain,
    Request,
    Script,
)
from dragoman.redis_servers.servers import Servers, open_servers
from dragoman.redis_servers.subscription import Subscription

__all__ = [
    "OLDEST_REDIS",
    "Call",
    "Caller",
    "Command",
    "FunctionCall",
    "Library",
    "Misfit",
    "Operations",
    "Plain",
    "Reply",
    "Request",
    "Script",
    "ServerFacts",
    "Servers",
    "Subscription",
    "Tag",
    "ask_redis",
    "misfit",
    "open_servers",
]
