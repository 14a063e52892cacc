"""What instances share, on a Redis server or a Redis Cluster."""

from dragoman.live.shared.redis.ledger import RedisSharedLedger

__all__ = ["RedisSharedLedger"]
