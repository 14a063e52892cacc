"""The packages that the lock files name: Python's of ``requirements``, npm's of ``web``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
NPM_LOCK = ROOT / "web" / "package-lock.json"


@dataclass(frozen=True, order=True)
class Pinned:
    """A Python package at one version, which other systems or Pythons may need and not this one."""

    name: str
    version: str
    needed_here: bool

    @property
    def installed(self) -> Distribution | None:
        """What this environment has of it, if only at another version."""
        try:
            return distribution(self.name)
        except PackageNotFoundError:
            return None


@dataclass(frozen=True, order=True)
class NpmPackage:
    """A package of npm at one version, with the licence that the lock file gives."""

    name: str
    version: str
    licence: str
    is_shipped: bool
    """In the console's pages, and so in the wheel; others only build or test them."""


@cache
def pinned(file: str) -> tuple[Pinned, ...]:
    """The packages of a file of requirements, with all their versions."""
    found = []
    for line in (REQUIREMENTS / file).read_text().splitlines():
        if not line.startswith(" "):
            requirement = Requirement(line.removesuffix(" \\"))
            [specifier] = requirement.specifier
            needed = requirement.marker is None or requirement.marker.evaluate()
            found.append(Pinned(canonicalize_name(requirement.name), specifier.version, needed))
    return tuple(sorted(found))


@cache
def npm_packages() -> tuple[NpmPackage, ...]:
    """The packages of the console, and those that build and test it."""
    locked = json.loads(NPM_LOCK.read_text())["packages"]
    found = {
        NpmPackage(
            path.rpartition("node_modules/")[2],
            entry["version"],
            entry.get("license", ""),
            not entry.get("dev", False),
        )
        for path, entry in locked.items()
        if path and "version" in entry
    }
    return tuple(sorted(found))
