"""Requests that no honest caller would send, and chains of them, to a real server.

Every route gets requests made from the OpenAPI document, right ones and wrong ones; then chains of
requests follow each other, each with ids that the answers before brought. Nothing may be answered
with 500, every refusal has the one form, and afterwards the server is as large as before.

``python -m tests.fuzz_rest --cases 20000 --seed 7``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, NoReturn

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from tests.fuzz_growth import Growth, Held, held_by_family
from tests.integration.serve.server_process import ServerProcess, environment

STATEFUL_SHARE = 0.3
STEPS = 8
CALL_SECONDS = 60.0
RETRIED = 503
"""What a server answers while its lab starts again, or when an operator asked it to drain."""

MOST_GROWTH = Held(memory_bytes=150_000_000, descriptors=30)
"""How much more a server and its lab may hold than after the first tenth: caches fill, no more;
the descriptors are connections of callers and to the database."""

_UNHURRIED = frozenset(HealthCheck)


class BadAnswer(AssertionError):
    """Raised when a server answers as it never should."""


@dataclass
class Report:
    """What was sent, and what came back."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    growth: str = ""
    """What the server held, told for people."""
    bad: BadAnswer | None = None
    """The first answer that must not be."""

    def take(self, case: schemathesis.Case[Any], answer: Response) -> None:
        self.cases += 1
        self.statuses[answer.status_code] += 1
        self.operations[case.operation.label] += 1
        if answer.status_code >= 500 and answer.status_code != RETRIED:
            self._refuse(str(answer.status_code), case, answer)
        if answer.status_code >= 400 and not _is_problem(answer):
            self._refuse("not a problem", case, answer)

    def _refuse(self, what: str, case: schemathesis.Case[Any], answer: Response) -> NoReturn:
        bad = BadAnswer(f"{what}: {answer.text[:500]}\n{case.as_curl_command()}")
        self.bad = self.bad or bad
        raise bad


def _is_problem(answer: Response) -> bool:
    try:
        body = answer.json()
    except ValueError:
        return False
    if not isinstance(body, dict) or "error" not in body:
        return "status" in body  # of /readyz
    return set(body["error"]) >= {"code", "message", "details"}


@contextmanager
def fuzzed_server(folder: Path) -> Iterator[ServerProcess]:
    """A server with everything that answers, in open mode: every request gets past the keys."""
    env = environment(
        DRAGOMAN_LIMITS__OPEN_REQUESTS_PER_MINUTE="0",
        DRAGOMAN_LIMITS__SIGN_INS_PER_MINUTE="0",
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="1",
    )
    with ServerProcess(folder / "data", env=env, lab=True) as server:
        yield server


def fuzz(server: ServerProcess, cases: int, seed_: int) -> Report:
    """Send so many requests, alone and in chains; raises BadAnswer for what must not be."""
    report = Report()
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    schema.config.generation.update(modes=list(schemathesis.GenerationMode))
    found = list(schema.get_all_operations())
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == len(found), "every route can be asked"
    growth = Growth(lambda: held_by_family(server.process.pid), cases, MOST_GROWTH)
    alone = max(1, round(cases * (1 - STATEFUL_SHARE) / len(operations)))
    random = Random(seed_)
    for operation in operations:
        _try_operation(operation, alone, random.getrandbits(32), report)
        growth.done(report.cases)
    while report.cases < cases:
        chains = max(1, (cases - report.cases) // STEPS)
        _try_chains(schema, min(chains, 500), random.getrandbits(32), report)
        growth.done(report.cases)
    assert httpx.get(f"{server.url}/readyz", timeout=CALL_SECONDS).status_code == 200
    report.growth = growth.check()
    return report


def _limits(examples: int, **more: Any) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=_UNHURRIED,
        phases=(Phase.explicit, Phase.generate),
        **more,
    )


def _try_operation(
    operation: schemathesis.APIOperation[Any, Any, Any, Any],
    examples: int,
    seed_: int,
    report: Report,
) -> None:
    for mode in schemathesis.GenerationMode:

        @seed(seed_)
        @_limits(max(1, examples // 2))
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers(case: schemathesis.Case[Any]) -> None:
            report.take(case, case.call(timeout=CALL_SECONDS))

        with suppress(Unsatisfiable):  # a route without parameters cannot be asked wrongly
            answers()


def _try_chains(schema: Any, chains: int, seed_: int, report: Report) -> None:
    class Chains(schema.as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:
            return {"timeout": CALL_SECONDS}

        def validate_response(
            self, response: Response, case: schemathesis.Case[Any], **_: Any
        ) -> None:
            report.take(case, response)

    limits = _limits(chains, stateful_step_count=STEPS)
    seeded = seed(seed_)(Chains)
    # What a chain can go on with depends on what the server holds of the chains before it, so that
    # the same beginning may be followed by another rest. That is no fault; a bad answer is.
    with suppress(FlakyStrategyDefinition):
        run_state_machine_as_test(seeded, settings=limits)
    if report.bad is not None:
        raise report.bad


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    chosen = Random().getrandbits(32) if arguments.seed is None else arguments.seed
    say(f"The seed is {chosen}.")
    began = perf_counter()
    with tempfile.TemporaryDirectory() as folder, fuzzed_server(Path(folder)) as server:
        report = fuzz(server, arguments.cases, chosen)
    say(f"{report.cases} requests to {len(report.operations)} routes, no 500, no growth, in")
    say(f"{perf_counter() - began:.0f} s; answers: {dict(sorted(report.statuses.items()))}")
    say(report.growth)


if __name__ == "__main__":
    main()
