"""What a strategy is called is written in several places, which must agree."""

from __future__ import annotations

import re
from importlib import resources
from typing import get_args, get_type_hints

from dragoman.live.ledger import CHOICES, Strategy
from dragoman.live.shared.redis.cells import _STRATEGIES
from dragoman.settings.scheduler import SelectionSettings


def test_every_strategy_can_be_set_and_is_known_in_memory_and_on_redis() -> None:
    allowed = get_args(get_type_hints(SelectionSettings)["strategy"])
    assert set(allowed) == {strategy.value for strategy in Strategy}
    assert set(CHOICES) == set(_STRATEGIES) == set(Strategy)


def test_the_functions_on_redis_number_the_strategies_as_their_askers_do() -> None:
    functions = resources.files("dragoman.live.shared.functions")
    text = functions.joinpath("attempt.lua").read_text()
    found = re.search(r"^local (RANDOM, [A-Z_, ]+) = ([0-9, ]+)$", text, re.MULTILINE)
    assert found is not None
    numbers = dict(zip(found[1].split(", "), map(int, found[2].split(", ")), strict=True))
    assert numbers == {strategy.name: number for strategy, number in _STRATEGIES.items()}
