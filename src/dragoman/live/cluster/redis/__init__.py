"""The cluster on a Redis server or a Redis Cluster."""

from dragoman.live.cluster.redis.peers import RedisPeers

__all__ = ["RedisPeers"]
