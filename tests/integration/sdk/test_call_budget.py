"""A job costs the programs that use the SDK few calls, which no machine makes slower."""

from __future__ import annotations

import pytest
from benchmarks.profiling.measure import Calls, Role, calls_of_caller

BUDGETS: dict[Role, tuple[int, int]] = {"node": (40, 3), "client": (80, 20)}
"""Python calls for each text job, and how many of them may be coroutines. A client
that is quicker than its server wakes up for every result: on an idle machine that costs most."""

_SECONDS = 1.5


@pytest.mark.parametrize("role", BUDGETS)
def test_a_text_job_keeps_within_the_budget_of_calls(role: Role) -> None:
    calls, coroutines = BUDGETS[role]
    found = calls_of_caller(role, _SECONDS).calls
    assert found.things > 100
    assert found.total <= calls, by_function(found)
    assert found.coroutines <= coroutines, by_function(found)


def by_function(calls: Calls) -> str:
    shown = [f"{calls.total:.1f} calls, {calls.coroutines:.1f} of coroutines; by function:"]
    most = sorted(calls.each.items(), key=lambda found: -found[1])[:60]
    return "\n".join([*shown, *(f"    {name}: {count:.2f}" for name, count in most)])
