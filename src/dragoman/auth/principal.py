"""The principal: who sends a request, what they may use, and for which tenant."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.auth.roles import SEES_EVERY_TENANT, Access, Permission, Role, may, roles_with
from dragoman.errors import Forbidden
from dragoman.ids import KeyId, NodeId, SignInId, TenantId

DEFAULT_TENANT = TenantId("default")

OIDC_PREFIX = "oidc-"
"""What the ids of people begin with whom an OpenID provider vouches for."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key, or anyone at all in open mode."""

    key_id: KeyId | None
    role: Role
    tenant: TenantId
    node_id: NodeId | None = None
    every_tenant: bool = False
    """Whether it works for the tenant that each request names: only this server's own lab does."""
    sign_in_id: SignInId | None = None
    """Set for a person who signed in with the key, in a browser."""

    @property
    def anonymous(self) -> bool:
        """True in open mode, where callers need no key."""
        return self.key_id is None


@dataclass(frozen=True, slots=True)
class OidcPerson:
    """Who signed in, as the provider's claims tell it."""

    key_id: KeyId
    """Stands for the person where others have a key: the same at every sign-in."""
    name: str
    role: Role
    tenant: TenantId


OWN_LAB = Principal(
    key_id=KeyId("own-lab"), role=Role.CLIENT, tenant=DEFAULT_TENANT, every_tenant=True
)
"""The lab of this server, which sends the items of every tenant's experiments to the fleet."""

ANYONE = Principal(key_id=None, role=Role.OPERATOR, tenant=DEFAULT_TENANT)
"""In open mode everyone is an operator of the default tenant."""


def authorize(principal: Principal, permission: Permission, access: Access = Access.ACT) -> None:
    """Refuse a principal whose role may not use the thing, or only look at it."""
    if may(principal.role, permission, access):
        return
    roles = roles_with(permission, access)
    only_sees = may(principal.role, permission, Access.READ)
    may_not = "may look at, and not change or use," if only_sees else "may not use"
    raise Forbidden(
        f"A key with role {principal.role} {may_not} {permission}; "
        f"ask for a key with role {' or '.join(roles)}.",
        details={"role": principal.role.value, "roles": roles},
    )


def effective_tenant(principal: Principal, requested: str | None) -> TenantId:
    """The tenant that a request works for: the key's, or in open mode the one it names."""
    if principal.anonymous or principal.every_tenant:
        return TenantId(requested) if requested else principal.tenant
    if requested and requested != principal.tenant:
        raise Forbidden(
            f"The key belongs to tenant {principal.tenant!r} and cannot work for {requested!r}; "
            "leave tenant_id out, or use a key of that tenant."
        )
    return principal.tenant


def tenant_asked(principal: Principal, requested: str | None) -> TenantId:
    """Whose things a caller means: an operator may name any tenant, others have their own."""
    if requested is not None and may_see(principal, requested):
        return TenantId(requested)
    return effective_tenant(principal, requested)


def may_see(principal: Principal, tenant: str) -> bool:
    """Whether a tenant's things exist for this principal."""
    if principal.every_tenant or sees_every_tenant(principal):
        return True
    return principal.tenant == tenant


def sees_every_tenant(principal: Principal) -> bool:
    """Operators and viewers look after the whole server."""
    return principal.role in SEES_EVERY_TENANT
