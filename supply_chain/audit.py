"""Known weaknesses of the packages that the lock files name; ``make audit``.

An audit that finds nothing may mean that nothing is known, or that nobody was asked. A package that
is known to be weak is therefore looked up first: only a database that reports it is believed.

Exit codes: 0, nothing is known against any package; 1, something is; 3, there is no data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from supply_chain.packages import NPM_LOCK, REQUIREMENTS, ROOT

CLEAN, WEAK, NO_DATA = 0, 1, 3

PLANTED_PYTHON = ("jinja2", "2.4.1")
PLANTED_NPM = ("lodash", "4.17.0")
"""Reported in every database for many years."""

_PATIENCE_SECONDS = 600


class NoData(Exception):
    """A database could not be asked, or does not know what is planted."""


@dataclass(frozen=True)
class Weakness:
    """What is known against a package."""

    package: str
    version: str
    name: str
    fixed_in: str

    def __str__(self) -> str:
        remedy = f"fixed in {self.fixed_in}" if self.fixed_in else "no fix is known"
        return f"{self.package} {self.version}: {self.name} ({remedy})"


# --- Python's packages ----------------------------------------------------------------------------


Found = tuple[list[Weakness], list[str]]
"""What is known against packages, and the packages that the database does not know."""


def audit_python(requirements: Path, services: Sequence[Sequence[str]]) -> Found:
    """Ask the first database that reports the planted package; raises NoData when there is none."""
    reasons = []
    for service in services:
        with TemporaryDirectory() as folder:
            planted = Path(folder) / "planted.txt"
            planted.write_text("==".join(PLANTED_PYTHON) + "\n")
            try:
                if not _pip_audit(planted, [*service, "--no-deps"])[0]:
                    raise NoData(f"it does not know that {' '.join(PLANTED_PYTHON)} is weak")
            except NoData as reason:
                reasons.append(f"{' '.join(service)}: {reason}")
                continue
        return _pip_audit(requirements, [*service, "--require-hashes"])
    raise NoData("; ".join(reasons))


def _pip_audit(requirements: Path, options: Sequence[str]) -> Found:
    command = ["-m", "pip_audit", "--requirement", str(requirements), "--disable-pip", *options]
    done = subprocess.run(
        [sys.executable, *command, "--format", "json", "--progress-spinner", "off"],
        check=False,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
    )
    try:
        told = json.loads(done.stdout)["dependencies"]
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
        raise NoData(last[:300]) from None
    found = [
        Weakness(one["name"], one["version"], weakness["id"], ", ".join(weakness["fix_versions"]))
        for one in told
        for weakness in one.get("vulns", ())
    ]
    return found, [one["name"] for one in told if "skip_reason" in one]


# --- the console's packages -----------------------------------------------------------------------


def audit_npm() -> Found:
    """Ask npm's registry about the packages that are in the pages; raises NoData."""
    name, version = PLANTED_NPM
    with TemporaryDirectory() as folder:
        wanted = {"name": "planted", "version": "1.0.0", "dependencies": {name: version}}
        locked = {"": wanted, f"node_modules/{name}": {"version": version}}
        (Path(folder) / "package.json").write_text(json.dumps(wanted))
        (Path(folder) / "package-lock.json").write_text(
            json.dumps({"name": "planted", "lockfileVersion": 3, "packages": locked})
        )
        if not _npm_audit(Path(folder)):
            raise NoData(f"the registry of npm does not know that {name} {version} is weak")
    return _npm_audit(NPM_LOCK.parent), []


def _npm_audit(folder: Path) -> list[Weakness]:
    done = subprocess.run(
        [ROOT / ".ci" / "web", "npm", "audit", "--omit=dev", "--json", "--prefix", folder],
        check=False,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
    )
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise NoData(f"npm: {done.stderr.strip()[-300:]}") from None
    if "vulnerabilities" not in told:
        raise NoData(f"npm: {told.get('message', 'the registry gave no answer')}")
    return [
        Weakness(one["name"], one["range"], str(via.get("url", via.get("title", ""))), "")
        for one in told["vulnerabilities"].values()
        for via in one["via"]
        if isinstance(via, dict)
    ]


# --- both -----------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit what the lock files name, and print what is known."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--requirements", type=Path, default=REQUIREMENTS / "dev.txt")
    asked.add_argument("--osv-url", help="Ask this server, which speaks OSV's language, alone.")
    asked.add_argument("--without-npm", action="store_true", help="Only Python's packages.")
    given = asked.parse_args(arguments)
    services = [["--vulnerability-service", name] for name in ("pypi", "osv")]
    if given.osv_url:
        services = [["--vulnerability-service", "osv", "--osv-url", given.osv_url]]
    codes = [_tell("Python", lambda: audit_python(given.requirements, services))]
    if not given.without_npm:
        codes.append(_tell("npm", audit_npm))
    return next((code for code in (WEAK, NO_DATA) if code in codes), CLEAN)


def _tell(kind: str, audit: Callable[[], Found]) -> int:
    """Carry out an audit, and print what it found; the exit code that it calls for."""
    try:
        found, unknown = audit()
    except NoData as reason:
        print(f"{kind}: NO DATA, so nothing was audited. {reason}", file=sys.stderr)
        return NO_DATA
    for weakness in found:
        print(weakness)
    if unknown:
        print(f"{kind}: NO DATA about {', '.join(unknown)}.", file=sys.stderr)
    print(f"{kind}: {len(found) or 'no'} known weaknesses; the planted one was found.")
    return WEAK if found else NO_DATA if unknown else CLEAN


if __name__ == "__main__":
    sys.exit(main())
