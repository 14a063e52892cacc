"""Keys, roles and tenants: who is asking, what they may use, and for whom."""

from dragoman.auth.authenticator import Authenticator, KeyAuthenticator, OpenAuthenticator
from dragoman.auth.credentials import presented_key, remote_address
from dragoman.auth.key_store import KeyRecord, KeyStore
from dragoman.auth.keys import ApiKey
from dragoman.auth.principal import (
    DEFAULT_TENANT,
    Principal,
    authorize,
    effective_tenant,
    may_see,
)
from dragoman.auth.roles import ALLOWED, Permission, Role

__all__ = [
    "ALLOWED",
    "DEFAULT_TENANT",
    "ApiKey",
    "Authenticator",
    "KeyAuthenticator",
    "KeyRecord",
    "KeyStore",
    "OpenAuthenticator",
    "Permission",
    "Principal",
    "Role",
    "authorize",
    "effective_tenant",
    "may_see",
    "presented_key",
    "remote_address",
]
