"""Roles and tenants: the table, and what a refusal says."""

from __future__ import annotations

import pytest

from dragoman.auth import (
    ALLOWED,
    Access,
    Permission,
    Principal,
    Role,
    authorize,
    effective_tenant,
    may_see,
)
from dragoman.auth.principal import ANYONE
from dragoman.errors import Forbidden
from dragoman.ids import KeyId, TenantId


def holder(role: Role, tenant: str = "acme") -> Principal:
    return Principal(KeyId("k-1"), role, TenantId(tenant))


def test_operators_and_everyone_in_open_mode_may_do_everything() -> None:
    for permission in Permission:
        authorize(holder(Role.OPERATOR), permission)
        authorize(ANYONE, permission)


@pytest.mark.parametrize(
    ("role", "permitted"),
    [
        (Role.NODE, {Permission.NODE_SOCKET}),
        (
            Role.CLIENT,
            {
                Permission.SESSION_SOCKET,
                Permission.SESSIONS,
                Permission.JOBS,
                Permission.GLOSSARY,
                Permission.USAGE,
            },
        ),
        (Role.EVALUATOR, {Permission.DATASETS, Permission.EXPERIMENTS}),
        (
            Role.VIEWER,
            # Everything that operators read; the sockets of nodes and sessions only act.
            set(Permission) - {Permission.NODE_SOCKET, Permission.SESSION_SOCKET},
        ),
    ],
)
def test_other_roles_may_use_what_they_are_for_and_nothing_else(
    role: Role, permitted: set[Permission]
) -> None:
    assert ALLOWED[role] == permitted
    for permission in set(Permission) - permitted:
        with pytest.raises(Forbidden, match="operator"):
            authorize(holder(role), permission)


def test_a_viewer_sees_what_an_operator_sees_and_acts_on_nothing() -> None:
    for permission in Permission:
        with pytest.raises(Forbidden):
            authorize(holder(Role.VIEWER), permission)
    for permission in ALLOWED[Role.VIEWER]:
        authorize(holder(Role.VIEWER), permission, Access.READ)
    assert may_see(holder(Role.VIEWER), "globex")
    with pytest.raises(Forbidden) as refusal:
        authorize(holder(Role.VIEWER), Permission.NODES, Access.ACT)
    assert str(refusal.value) == (
        "A key with role viewer may look at, and not change or use, nodes; "
        "ask for a key with role operator."
    )


def test_a_refusal_names_the_role_and_the_roles_that_would_do() -> None:
    with pytest.raises(Forbidden) as refusal:
        authorize(holder(Role.NODE), Permission.JOBS)
    assert str(refusal.value) == (
        "A key with role node may not use jobs; ask for a key with role client or operator."
    )


def test_a_key_works_for_its_own_tenant_only() -> None:
    assert effective_tenant(holder(Role.CLIENT), None) == "acme"
    assert effective_tenant(holder(Role.CLIENT), "acme") == "acme"
    for role in Role:
        with pytest.raises(Forbidden, match="globex"):
            effective_tenant(holder(role), "globex")


def test_in_open_mode_the_request_names_the_tenant() -> None:
    assert effective_tenant(ANYONE, None) == "default"
    assert effective_tenant(ANYONE, "globex") == "globex"
    assert ANYONE.anonymous
    assert not holder(Role.CLIENT).anonymous


def test_only_operators_see_the_things_of_other_tenants() -> None:
    assert may_see(holder(Role.CLIENT), "acme")
    assert not may_see(holder(Role.CLIENT), "globex")
    assert may_see(holder(Role.OPERATOR), "globex")
    assert may_see(ANYONE, "globex")
