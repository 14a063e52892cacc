"""What people said of the rows of an experiment, in words."""

from __future__ import annotations

import msgspec

from dragoman.lab.annotations import agreement_told, annotated_told, calibration_told, is_known
from dragoman.lab.results import Aggregates


def people_lines(reached: Aggregates) -> list[str]:
    """How far judges were measured, and how far evaluators and people agree, a line each."""
    lines = [
        f"judge {name}: {calibration_told(score.calibration)}"
        for name, score in reached.scores.items()
        if not isinstance(score.calibration, msgspec.UnsetType)
    ]
    people = reached.annotations
    if isinstance(people, msgspec.UnsetType):
        return lines
    for name, said in people.items():
        told = {score: found for score, found in said.evaluators.items() if is_known(found)}
        few = "" if told else "; too few to tell how far evaluators agree"
        lines.append(f"annotations {name}: {annotated_told(said)}{few}")
        lines += [f"  {score}: {agreement_told(found)}" for score, found in told.items()]
    return lines
