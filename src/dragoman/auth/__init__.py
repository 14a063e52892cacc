"""Keys, roles and tenants: who is asking, what they may use, and for whom."""

from dragoman.auth.address_limit import AddressLimit
from dragoman.auth.authenticator import (
    Authenticator,
    KeyAuthenticator,
    OpenAuthenticator,
    SignIn,
)
from dragoman.auth.credentials import (
    CSRF_HEADER,
    SIGN_IN_COOKIE,
    check_csrf,
    csrf_token,
    presented_key,
    remote_address,
    signed_in_key,
)
from dragoman.auth.key_store import KeyRecord, KeyStore
from dragoman.auth.keys import ApiKey
from dragoman.auth.oidc import OIDC_FLOW_SECONDS, OidcClient, own_path
from dragoman.auth.principal import (
    DEFAULT_TENANT,
    OidcPerson,
    Principal,
    authorize,
    effective_tenant,
    may_see,
    sees_every_tenant,
    tenant_asked,
)
from dragoman.auth.roles import ALLOWED, Access, Permission, Role, may

__all__ = [
    "ALLOWED",
    "CSRF_HEADER",
    "DEFAULT_TENANT",
    "OIDC_FLOW_SECONDS",
    "SIGN_IN_COOKIE",
    "Access",
    "AddressLimit",
    "ApiKey",
    "Authenticator",
    "KeyAuthenticator",
    "KeyRecord",
    "KeyStore",
    "OidcClient",
    "OidcPerson",
    "OpenAuthenticator",
    "Permission",
    "Principal",
    "Role",
    "SignIn",
    "authorize",
    "check_csrf",
    "csrf_token",
    "effective_tenant",
    "may",
    "may_see",
    "own_path",
    "presented_key",
    "remote_address",
    "sees_every_tenant",
    "signed_in_key",
    "tenant_asked",
]
