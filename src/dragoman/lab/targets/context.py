"""Who experiments run as, and hence what they may reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.clock import Clock, SystemClock
from dragoman.lab.audio import AudioFolder


@dataclass(frozen=True, slots=True)
class Context:
    """What targets and evaluators may use.

    On a server the two lists are settings. Without a server experiments run as the user, who may
    call what they like: then both are None.
    """

    python_allow: tuple[str, ...] | None = None
    """Patterns of functions that may be called; None: any."""
    http_allow: tuple[str, ...] | None = None
    """Private hosts, addresses and networks that may be called; None: any."""
    open_mode: bool = False
    """Whether the server needs no keys, as on a developer's machine: loopback is allowed."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions that a program passed in, by the names that settings use."""
    clock: Clock = field(default_factory=SystemClock)
    modules: str | None = None
    """The folder to import functions from, besides Python's own path."""
    audio_folder: AudioFolder | None = None
    """Where the audio of datasets is kept."""

    def at(self, modules: str | None) -> Context:
        """The same, with the folder that an experiment remembers; a server has no such folders."""
        if modules is None or self.python_allow is not None:
            return self
        return replace(self, modules=modules)
