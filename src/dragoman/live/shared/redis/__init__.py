"""What instances share, on a Redis server or a Redis Cluster."""

from dragoman.live.shared.redis.check import RedisCheck
from dragoman.live.shared.redis.key_families import FAMILIES as KEY_FAMILIES
from dragoman.live.shared.redis.ledger import RedisSharedLedger

__all__ = ["KEY_FAMILIES", "RedisCheck", "RedisSharedLedger"]
