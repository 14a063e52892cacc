"""The cluster on a Redis server or a Redis Cluster."""

from dragoman.live.cluster.redis.key_families import FAMILIES as KEY_FAMILIES
from dragoman.live.cluster.redis.peers import RedisPeers

__all__ = ["KEY_FAMILIES", "RedisPeers"]
