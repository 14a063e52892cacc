"""The diagrams of states show the steps that the program allows, and no other."""

from __future__ import annotations

import re

from tests.documents.blocks import blocks_of

from dragoman.lab.states import RUN_TRANSITIONS
from dragoman.live.fleet.health import MOVES
from dragoman.live.ledger.states import TRANSITIONS

FLEET = "docs/concepts/fleet.md"
LAB = "docs/concepts/lab.md"


def drawn(page: str, with_state: str) -> set[tuple[str, str, str]]:
    """The steps of the page's diagram that has this state: from, to, and what is written there."""
    [diagram] = [
        block.text
        for block in blocks_of(page)
        if block.text.startswith("stateDiagram") and with_state in block.text
    ]
    found = re.findall(r"^\s*(\w+) --> (\w+)(?:: (\w+))?$", diagram, re.MULTILINE)
    return {(before, after, event) for before, after, event in found}


def test_the_health_of_a_node() -> None:
    moves = {(str(before), str(after), str(event)) for (before, event), after in MOVES.items()}
    assert drawn(FLEET, "offline") == moves


def test_the_states_of_an_attempt() -> None:
    steps = {(str(one), str(other), "") for one, after in TRANSITIONS.items() for other in after}
    assert drawn(FLEET, "DISPATCHED") == steps


def test_the_states_of_a_run() -> None:
    steps = {
        (str(one), str(other), "") for one, after in RUN_TRANSITIONS.items() for other in after
    }
    assert drawn(LAB, "pending") == steps
