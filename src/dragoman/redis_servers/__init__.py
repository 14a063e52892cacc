"""The way to Redis: one server or a Cluster, every call answered or refused within a time.

Needs the extra `cluster`; rooms that can do without Redis import this one only when asked to.
"""

from dragoman.redis_servers.connection import Reply
from dragoman.redis_servers.fitness import OLDEST_REDIS, Misfit, RedisServerFacts, ask_redis, misfit
from dragoman.redis_servers.gathering import RedisPipeline, settle
from dragoman.redis_servers.key_families import MODEL, KeyFamily, family_of, versioned
from dragoman.redis_servers.requests import (
    Command,
    FunctionCall,
    FunctionLibrary,
    Plain,
    RedisRequest,
)
from dragoman.redis_servers.servers import Servers, open_servers
from dragoman.redis_servers.subscription import Subscription

__all__ = [
    "MODEL",
    "OLDEST_REDIS",
    "Command",
    "FunctionCall",
    "FunctionLibrary",
    "KeyFamily",
    "Misfit",
    "Plain",
    "RedisPipeline",
    "RedisRequest",
    "RedisServerFacts",
    "Reply",
    "Servers",
    "Subscription",
    "ask_redis",
    "family_of",
    "misfit",
    "open_servers",
    "settle",
    "versioned",
]
