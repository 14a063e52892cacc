"""Targets: each answers a turn, given the turns before it, with an output."""

from dragoman.lab.targets.audio import WithAudio
from dragoman.lab.targets.caching import CachedTarget, answer_key
from dragoman.lab.targets.columns import require_column
from dragoman.lab.targets.context import Answers, Context
from dragoman.lab.targets.functions import PythonFunction, find_function
from dragoman.lab.targets.kinds import (
    TARGETS,
    TargetKind,
    check_target,
    open_target,
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
from dragoman.lab.targets.registry import Registry, settings_of
from dragoman.lab.targets.target import Target
from dragoman.lab.targets.threads import Threads
from dragoman.outbound import refusal_in, seconds_in

__all__ = [
    "MAIN_COLUMN",
    "TARGETS",
    "Answers",
    "CachedTarget",
    "Context",
    "FunctionOutput",
    "Output",
    "PastTurn",
    "PythonFunction",
    "Registry",
    "Target",
    "TargetKind",
    "Threads",
    "WithAudio",
    "answer_key",
    "check_target",
    "checked_json",
    "find_function",
    "open_target",
    "refusal_in",
    "require_column",
    "seconds_in",
    "settings_of",
    "unpriced_target",
    "usage_problem",
]
