"""Checks on an experiment before it is stored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

import msgspec

from dragoman.errors import (
    BudgetExceeded,
    DeniedWord,
    InvalidMessage,
    NotFound,
    SchemaMismatch,
)
from dragoman.ids import TenantId
from dragoman.lab.budgets import Quota, Spent, beyond_balance, used_up
from dragoman.lab.cron import DEFAULT_TIMEZONE, check_cron
from dragoman.lab.datasets import MAX_COLUMNS, columns_of
from dragoman.lab.evaluators import check_evaluators, unpriced_evaluator
from dragoman.lab.model import Budget, DatasetVersion, EvaluatorSpec, ExperimentSpec
from dragoman.lab.names import check_name
from dragoman.lab.plugins import Context
from dragoman.lab.repository import quotas, spending
from dragoman.lab.targets import check_target, unpriced_target
from dragoman.settings import LabSettings
from dragoman.store import StoreConnection

MAX_RETRIES = 100
MAX_REPETITIONS = 1_000
MIN_WEIGHT, MAX_WEIGHT = 0.001, 1_000
MAX_EVALUATORS = 100
"""Maximum evaluators of an experiment: each runs on every item and has columns in every view."""


def check_form(spec: ExperimentSpec, settings: LabSettings) -> None:
    """Refuse values that can never work, each by its name."""
    check_name(spec.name, "an experiment")
    check_words((spec.name, spec.description), settings.denied_words)
    _check_range("concurrency", spec.concurrency, 1, settings.max_item_concurrency)
    _check_range("evaluator_concurrency", spec.evaluator_concurrency, 1, 1_000_000)
    _check_range("retries", spec.retries, 0, MAX_RETRIES)
    _check_range("repetitions", spec.repetitions, 1, MAX_REPETITIONS)
    _check_range("weight", spec.weight, MIN_WEIGHT, MAX_WEIGHT)
    for name in ("item_timeout_seconds", "time_limit_seconds"):
        seconds = getattr(spec, name)
        if seconds is not None and not 0 < seconds < float("inf"):
            raise InvalidMessage(f"{name} is {seconds}; give a number of seconds above 0.")
    _check_amounts(spec.budget)
    _check_priced(spec)
    if spec.cron is not None:
        check_cron(spec.cron, spec.cron_timezone)
    elif spec.cron_timezone != DEFAULT_TIMEZONE:
        raise InvalidMessage(
            f"cron_timezone is {spec.cron_timezone!r}, and the experiment has no cron; give it "
            "one, or leave cron_timezone out.",
            details={"field": "cron_timezone"},
        )
    if len(spec.evaluators) > MAX_EVALUATORS:
        raise InvalidMessage(
            f"The experiment has {len(spec.evaluators):,} evaluators; at most {MAX_EVALUATORS} "
            "are allowed.",
            details={"field": "evaluators"},
        )
    if len(spec.mapping) > MAX_COLUMNS:
        raise InvalidMessage(
            f"The mapping has {len(spec.mapping):,} entries; at most {MAX_COLUMNS:,} are allowed.",
            details={"field": "mapping"},
        )
    names = Counter(evaluator.name for evaluator in spec.evaluators)
    for name in names:
        check_name(name, "an evaluator")
        if names[name] > 1:
            raise InvalidMessage(f"Two evaluators are called {name!r}; give one another name.")


def unpriced_target_and_scores(spec: ExperimentSpec) -> tuple[str | None, dict[str, str]]:
    """Why the cost of the target cannot be known, and the cost of scores, by their names."""
    found = {one.name: unpriced_evaluator(one) for one in spec.evaluators}
    scores = {name: why for name, why in found.items() if why is not None}
    return unpriced_target(spec.target), scores


def _check_amounts(budget: Budget) -> None:
    for name, amount in (("tokens", budget.tokens), ("cost", budget.cost)):
        if amount is not None and not 0 < amount < float("inf"):
            raise InvalidMessage(
                f"budget.{name} is {amount:g}; give a number above 0, or leave it out.",
                details={"field": f"budget.{name}"},
            )


def _check_priced(spec: ExperimentSpec) -> None:
    """Refuse a limit on the cost of an experiment whose cost could not be counted."""
    if spec.budget.cost is None:
        return
    target, scores = unpriced_target_and_scores(spec)
    named = [("the target", target), *((f"the score {n!r}", why) for n, why in scores.items())]
    for what, why in named:
        if why is not None:
            raise InvalidMessage(
                f"The experiment has a budget of cost {spec.budget.cost:g}, but the cost of {what} "
                f"cannot be counted: {why}.",
                details={"field": "budget.cost"},
            )


def check_words(texts: Iterable[str], denied: Iterable[str]) -> None:
    """Refuse texts with a denied word: whole words, except in scripts without spaces."""
    for text in texts:
        for word in denied:
            pattern = re.escape(word.casefold())
            if word.isascii():
                pattern = rf"(?<!\w){pattern}(?!\w)"
            if re.search(pattern, text.casefold()):
                raise DeniedWord(f"{text[:50]!r} holds the denied word {word!r}; choose another.")


def check_columns(
    spec: ExperimentSpec,
    version: DatasetVersion | None,
    context: Context,
    *,
    calls_target: bool = True,
) -> None:
    """Refuse a mapping, a target or evaluators that use columns the dataset does not have."""
    if version is None and spec.dataset_version_id is not None:
        raise no_version(spec.dataset_version_id)
    columns = () if version is None else columns_of(version.schema)
    try:
        check_uses(spec, columns, context, calls_target=calls_target)
    except SchemaMismatch:
        # Without items there are no columns to check; the start refuses an empty dataset, and items
        # that are added later are checked when they come.
        if version is not None and version.items:
            raise


def check_uses(
    spec: ExperimentSpec, columns: Sequence[str], context: Context, *, calls_target: bool = True
) -> None:
    """Refuse an experiment that uses columns which are not among these."""
    context = context.at(spec.modules)
    _check_mapping(spec.mapping, columns)
    columns = tuple(dict.fromkeys((*columns, *spec.mapping)))
    if calls_target:
        check_target(spec.target, columns, context, cache=spec.cache)
    check_evaluators(spec.evaluators, columns, context)


def with_evaluators(spec: ExperimentSpec, evaluators: Sequence[EvaluatorSpec]) -> ExperimentSpec:
    """The experiment with these evaluators: one of the same name replaces the former one.

    Each gets a number that none had before, so that no earlier score passes for one of its own.
    """
    numbers = spec.numbers
    kept = {evaluator.name: evaluator for evaluator in spec.evaluators}
    unused = count(max(numbers.values(), default=-1) + 1)
    for evaluator in evaluators:
        kept[evaluator.name] = evaluator
        numbers[evaluator.name] = next(unused)
    return msgspec.structs.replace(
        spec,
        evaluators=tuple(kept.values()),
        evaluator_numbers=tuple(numbers[name] for name in kept),
    )


def no_version(version_id: str | None) -> NotFound:
    return NotFound(
        f"No dataset version has the id {version_id!r}; `dragoman dataset list` shows them."
    )


def _check_mapping(mapping: Mapping[str, str], columns: Sequence[str]) -> None:
    for name, own in mapping.items():
        if own not in columns:
            raise SchemaMismatch(
                f"The mapping of {name!r} names the column {own!r}, which the dataset does not "
                f"have; it has {', '.join(columns) or 'none'}."
            )


class Balance(msgspec.Struct, frozen=True):
    """What a tenant may use up, and what it has used up."""

    limit: Budget
    spent: Spent


def quota_of(settings: LabSettings) -> Quota:
    """The limits of a tenant that has none of its own."""
    return Quota(settings.running_experiments, settings.tenant_tokens, settings.tenant_cost)


def balance_of(connection: StoreConnection, tenant: TenantId, settings: LabSettings) -> Balance:
    """The tenant's balance, added up from the rows of its runs."""
    limits = quotas.find_quota(connection, tenant).over(quota_of(settings))
    return Balance(limits.balance, spending.spent_by_tenant(connection, tenant))


def check_balance(balance: Balance) -> None:
    """Refuse what a tenant asks for that has used up its balance."""
    used = used_up(balance.limit, balance.spent)
    if used is not None:
        raise BudgetExceeded(
            f"The tenant has used up {used}; have lab.tenant_tokens or lab.tenant_cost raised, or "
            "the tenant's own limit (`dragoman lab quota`)."
        )


def check_budget(budget: Budget, spent: Spent, balance: Balance) -> None:
    """Refuse a budget that is more than its tenant has left.

    `spent` is what the experiment has used up of it already.
    """
    beyond = beyond_balance(budget, spent, balance.limit, balance.spent)
    if beyond is not None:
        raise BudgetExceeded(
            f"The budget asks for {beyond}; lower it, or have lab.tenant_tokens or "
            "lab.tenant_cost raised, or the tenant's own limit (`dragoman lab quota`)."
        )


def _check_range(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise InvalidMessage(f"{name} is {value}; it must be from {least} to {most}.")
