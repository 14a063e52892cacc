"""What gave way first: the one sentence that an operator looks for in a report."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.simulation.recording import MINUTE_SECONDS, GroupUse, RunRecorder
from dragoman.simulation.scenario import FleetGroup, Scenario

_FULL_SHARE = 0.97
"""A group whose slots are busy so much of a minute has no slot to give for most of it."""
_HIGH_SHARE = 0.80

REMEDIES: Mapping[str, str] = {
    "NO_CAPACITY": "add slots for this pair, or let its work wait longer (pending_seconds)",
    "PAIR_UNSUPPORTED": "no node serves this pair; add its languages to a fleet",
    "NO_AVAILABLE_NODE": "its nodes were gone or not ready; add nodes that fail apart from these",
    "NODE_UNAVAILABLE": "its nodes were gone; add nodes that fail apart from these",
    "MODEL_NOT_AVAILABLE": "its nodes had lost the model",
    "JOB_TIMEOUT": "work took longer than job_timeout allows; use quicker nodes, or raise it",
    "ATTEMPTS_EXHAUSTED": "several nodes failed on the same work; see the faults",
    "RATE_LIMITED": "a limit of the settings was reached; see [limits]",
    "SCHEDULER_DEPENDENCY_DOWN": "Redis did not answer",
    "CONNECTION_LOST": "an instance died with the call",
    "NO_END": "the scheduler lost it, which it must not; report this scenario and its seed",
    "STILL_WAITS": "batch work found too few free slots; add slots, or accept that it takes longer",
    "gap_timeout": "its result came too late to be in order (delivery.gap_grace_ms)",
}
"""What to do about each reason."""


def first_bottleneck(scenario: Scenario, recorder: RunRecorder) -> str:
    """What was short first, when, and what to do about it."""
    if not recorder.refused_by_minute:
        return _busiest(scenario, recorder)
    minute = min(recorder.refused_by_minute)
    refused = recorder.refused_by_minute[minute]
    (number, reason), count = max(refused.items(), key=lambda item: (item[1], item[0]))
    stream = recorder.streams[number]
    groups = [use for use in recorder.groups if serves(use.group, stream.pair)]
    sentence = (
        f"{stream.pair} ({stream.traffic}) was refused first, at {clock(scenario, minute)}:"
        f" {count} x {reason}"
    )
    full = [use for use in groups if _share(use, minute) >= _FULL_SHARE]
    if full and reason in ("NO_CAPACITY", "JOB_TIMEOUT", "NO_AVAILABLE_NODE", "STILL_WAITS"):
        named = ", ".join(use.group.name for use in full)
        sentence += f"; every slot of {named} was busy"
    remedy = REMEDIES.get(reason)
    return f"{sentence}. {remedy[0].upper()}{remedy[1:]}." if remedy else f"{sentence}."


def _busiest(scenario: Scenario, recorder: RunRecorder) -> str:
    found = [
        (_share(use, minute), -minute, -number)
        for number, use in enumerate(recorder.groups)
        for minute in use.by_minute
    ]
    if not found:
        return "There was no fleet."
    share, minute, number = max(found)
    use = recorder.groups[-number]
    at = clock(scenario, -minute)
    if share >= _HIGH_SHARE:
        return (
            f"Nothing was refused. The slots of {use.group.name} were {share:.0%} busy at {at}:"
            " they are short next."
        )
    return (
        f"Nothing was refused, and nothing is short: {use.group.name} was busiest at {at}, with"
        f" {share:.0%} of its slots."
    )


def _share(use: GroupUse, minute: int) -> float:
    found = use.by_minute.get(minute)
    return found.busy_seconds / found.slot_seconds if found and found.slot_seconds else 0.0


def serves(group: FleetGroup, pair: str) -> bool:
    """Whether nodes of a group know both languages of a pair."""
    source, target = pair.split(":")
    listed = (group.languages, group.asr or (), group.nmt or (), group.tts or ())
    known = {tag.lower() for tags in listed for tag in tags}
    return {source.lower(), target.lower()} <= known


def clock(scenario: Scenario, minute: int) -> str:
    """A minute of the scenario as the time of day."""
    second = scenario.start_second_of_day + minute * MINUTE_SECONDS
    hours, minutes = divmod(int(second // 60), 60)
    return f"{hours % 24:02}:{minutes:02}"
