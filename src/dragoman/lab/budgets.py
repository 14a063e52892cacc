"""Budgets: what an experiment and a tenant may use up, and when that is used up."""

from __future__ import annotations

import msgspec

from dragoman.lab.model import Budget

NO_BUDGET = Budget()

BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
"""The code of items that a run did not come to, because a budget was used up."""


class Spent(msgspec.Struct, frozen=True):
    """What runs have used up."""

    tokens: int = 0
    cost: float = 0.0


def used_up(budget: Budget, spent: Spent) -> str | None:
    """Which part of the budget is used up, in words; None while there is something left of all."""
    if budget.tokens is not None and spent.tokens >= budget.tokens:
        return f"{spent.tokens:,} of {budget.tokens:,} tokens"
    if budget.cost is not None and spent.cost >= budget.cost:
        return f"a cost of {spent.cost:g} of {budget.cost:g}"
    return None


def beyond_balance(budget: Budget, spent: Spent, limit: Budget, of_tenant: Spent) -> str | None:
    """Which part of a budget its tenant cannot pay any more, in words; None if it can.

    `spent` is what the experiment itself has used up of its budget already.
    """
    if budget.tokens is not None and limit.tokens is not None:
        needed, left = budget.tokens - spent.tokens, max(0, limit.tokens - of_tenant.tokens)
        if needed > left:
            return f"{needed:,} tokens, and the tenant has {left:,} left"
    if budget.cost is not None and limit.cost is not None:
        wanted, rest = budget.cost - spent.cost, max(0.0, limit.cost - of_tenant.cost)
        if wanted > rest:
            return f"a cost of {wanted:g}, and the tenant has {rest:g} left"
    return None


class Quota(msgspec.Struct, frozen=True):
    """Limits of one tenant; None where the settings hold, 0 tokens or cost: no limit."""

    running_experiments: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def over(self, settings: Quota) -> Quota:
        """These limits, filled up from the settings."""
        return Quota(
            *(
                default if own is None else own
                for own, default in zip(
                    msgspec.structs.astuple(self), msgspec.structs.astuple(settings), strict=True
                )
            )
        )

    @property
    def balance(self) -> Budget:
        """What the tenant may use up in all its experiments."""
        return Budget(self.tokens or None, self.cost or None)
