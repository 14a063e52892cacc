"""The ledger on a Redis server or a Redis Cluster."""

from dragoman.live.ledger.redis.ledger import RedisLedger

__all__ = ["RedisLedger"]
