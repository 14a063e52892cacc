"""``dragoman engines``: what a node could run here, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dragoman.cli.showing import JsonOption, print_json, print_table
from dragoman.engines import Requirement, every_engine


class Found(msgspec.Struct, frozen=True):
    """A stage of an engine on this machine."""

    engine: str
    stage: str | None
    does_it: str
    ready: bool
    missing: tuple[Requirement, ...] = ()
    offers: tuple[Requirement, ...] = ()
    """What it may be used with, and works without."""
    problem: str | None = None


def engines(json: JsonOption = False) -> None:
    """List what a node could run here, and what is missing.

    For what is missing it names the command that installs it.
    """
    found = list(_every_stage())
    if json:
        print_json(found)
        return
    print_table(
        ("ENGINE", "STAGE", "BY", "HERE", "TO INSTALL"),
        (
            (
                one.engine,
                one.stage,
                one.does_it,
                "yes" if one.ready else "no",
                one.problem or "; ".join(_commands(one)),
            )
            for one in found
        ),
        empty="There are no engines.",
    )


def _every_stage() -> Iterator[Found]:
    for name, kind, problem in every_engine():
        if kind is None:
            yield Found(name, None, "", ready=False, problem=problem)
            continue
        for stage, stage_kind in kind.stages.items():
            missing = tuple(need for need in stage_kind.requirements() if not need.found)
            offers = tuple(stage_kind.offers())
            yield Found(name, stage.value, stage_kind.summary, not missing, missing, offers)


def _commands(found: Found) -> Iterator[str]:
    """What installs the stage's needs, and then what it may be used with."""
    yield from dict.fromkeys(lack.install for lack in found.missing)
    for offer in found.offers:
        if not offer.found:
            yield f"for {offer.name}: {offer.install}"
