"""Targets: each answers a turn, given the turns before it, with an output."""

from dragoman.lab.targets.audio import WithAudio
from dragoman.lab.targets.caching import CachedTarget, answer_key
from dragoman.lab.targets.calls import StillWaits, TargetCall, calling, current_call
from dragoman.lab.targets.kinds import (
    TARGETS,
    TargetKind,
    check_target,
    open_target,
    probe_target,
    unpriced_target,
)
from dragoman.lab.targets.outputs import (
    MAIN_COLUMN,
    FunctionOutput,
    Output,
    PastTurn,
    checked_json,
    usage_problem,
)
from dragoman.lab.targets.target import Target
from dragoman.outbound import refusal_in, seconds_in

__all__ = [
    "MAIN_COLUMN",
    "TARGETS",
    "CachedTarget",
    "FunctionOutput",
    "Output",
    "PastTurn",
    "StillWaits",
    "Target",
    "TargetCall",
    "TargetKind",
    "WithAudio",
    "answer_key",
    "calling",
    "check_target",
    "checked_json",
    "current_call",
    "open_target",
    "probe_target",
    "refusal_in",
    "seconds_in",
    "unpriced_target",
    "usage_problem",
]
