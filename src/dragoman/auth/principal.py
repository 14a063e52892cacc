"""The principal: who sends a request, what they may use, and for which tenant."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.auth.roles import ALLOWED, Permission, Role, roles_with
from dragoman.errors import Forbidden
from dragoman.ids import KeyId, NodeId, TenantId

DEFAULT_TENANT = TenantId("default")


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key, or anyone at all in open mode."""

    key_id: KeyId | None
    role: Role
    tenant: TenantId
    node_id: NodeId | None = None

    @property
    def anonymous(self) -> bool:
        """True in open mode, where callers need no key."""
        return self.key_id is None


ANYONE = Principal(key_id=None, role=Role.OPERATOR, tenant=DEFAULT_TENANT)
"""In open mode everyone is an operator of the default tenant."""


def authorize(principal: Principal, permission: Permission) -> None:
    """Refuse a principal whose role may not use the thing."""
    if permission in ALLOWED[principal.role]:
        return
    able = " or ".join(roles_with(permission))
    raise Forbidden(
        f"A key with role {principal.role} may not use {permission}; "
        f"ask for a key with role {able}.",
        details={"role": principal.role.value, "roles": [*roles_with(permission)]},
    )


def effective_tenant(principal: Principal, requested: str | None) -> TenantId:
    """The tenant that a request works for: the key's, or in open mode the one it names."""
    if principal.anonymous:
        return TenantId(requested) if requested else principal.tenant
    if requested and requested != principal.tenant:
        raise Forbidden(
            f"The key belongs to tenant {principal.tenant!r} and cannot work for {requested!r}; "
            "leave tenant_id out, or use a key of that tenant."
        )
    return principal.tenant


def may_see(principal: Principal, tenant: str) -> bool:
    """Whether a tenant's things exist for this principal; an operator sees every tenant's."""
    return principal.role is Role.OPERATOR or principal.tenant == tenant
