"""Who experiments run as, and hence what they may reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from dragoman.clock import Clock, SystemClock
from dragoman.data_folder import find_server
from dragoman.ids import TenantId
from dragoman.lab.audio import AudioFolder
from dragoman.outbound import AddressRules


class Answers(Protocol):
    """Answers of targets and judges that were given before, each under the hash of its question."""

    async def find(self, key: str) -> bytes | None:
        """The answer that was kept under this key; None if there is none."""
        ...

    async def keep(self, key: str, answer: bytes) -> None:
        """Keep an answer; one that cannot be kept is only not found again."""
        ...


@dataclass(frozen=True, slots=True)
class OwnFleet:
    """The server whose lab this is, or that runs on the same data folder, as a target."""

    find: Callable[[], str | None]
    """The server's address; None while no server runs."""
    folder: str = ""
    """The data folder, for a person who looks for the server."""
    token: str | None = field(default=None, repr=False)
    """A key for any tenant; None where the server needs none, or the experiment names its own."""
    certificate: str = ""
    """The file with the server's own certificate, where it has one."""


def fleet_of_folder(folder: Path, certificate: str = "") -> OwnFleet:
    """The fleet of the server that runs on a data folder, looked for when it is needed."""

    def find() -> str | None:
        found = find_server(folder)
        return None if found is None else found.url

    return OwnFleet(find, str(folder), certificate=certificate)


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
    key_env_allow: tuple[str, ...] | None = None
    """Environment variables that may be sent as keys, each as ``NAME@host``."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions that a program passed in, by the names that settings use."""
    clock: Clock = field(default_factory=SystemClock)
    answers: Answers | None = None
    """The answer cache of the tenant whose experiment it is; None where there is none."""
    modules: str | None = None
    """The folder to import functions from, besides Python's own path."""
    audio_folder: AudioFolder | None = None
    """Where the audio of datasets is kept."""
    own_fleet: OwnFleet | None = None
    """The fleet that a `fleet` target without a URL means."""
    tenant: TenantId | None = None
    """Whose experiment it is, where that is known."""
    frees_audio: bool = True
    """Whether the lab removes files from that folder which its database does not name. A trial puts
    its own there, and no dataset names them."""

    @property
    def address_rules(self) -> AddressRules:
        """Which addresses may be called."""
        return AddressRules(self.http_allow, self.open_mode)

    @property
    def sendable_keys(self) -> tuple[str, ...] | None:
        """The environment variables that may be sent, as ``NAME@host``; None: any."""
        if self.http_allow is None:
            return None  # experiments run as the user, whose variables they are
        return self.key_env_allow or ()

    def at(self, modules: str | None) -> Context:
        """The same, with the folder that an experiment remembers; a server has no such folders."""
        if modules is None or self.python_allow is not None:
            return self
        return replace(self, modules=modules)
