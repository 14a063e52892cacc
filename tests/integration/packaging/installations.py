"""Distributions built from this source, and empty environments that they are installed into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Distributions:
    """What would be published."""

    sdist: Path
    wheel: Path
    """Built from the sdist, as pip does it where there is no wheel."""
    wheel_of_the_source: Path


def pinned(name: str) -> list[str]:
    """The packages of a file of requirements, each with its version and where it is needed."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return [line.removesuffix(" \\") for line in lines if not line.startswith(" ")]


def build(folder: Path) -> Distributions:
    """Build everything, with the build backend of this environment."""
    both, source = folder / "both", folder / "source"
    # The sdist first, then a wheel from it.
    _uv("build", "--no-build-isolation", "--python", sys.executable, "--out-dir", both, ROOT)
    _uv(
        *("build", "--wheel", "--no-build-isolation", "--python", sys.executable),
        *("--out-dir", source, ROOT),
    )
    (sdist,), (wheel,), (other,) = both.glob("*.tar.gz"), both.glob("*.whl"), source.glob("*.whl")
    return Distributions(sdist, wheel, other)


class Installation:
    """An environment with nothing in it but the wheel, what it needs, and an extra if one is named.

    Its processes know nothing of this one: no settings, no caches, no packages of the tests.
    """

    def __init__(
        self,
        folder: Path,
        wheel: Path,
        extra: str | None = None,
        *,
        bare: Installation | None = None,
    ) -> None:
        """Install it; over a copy of a bare installation, where there is one, which is quicker."""
        self.folder = folder
        self.work = folder / "work"
        self._python = folder / "venv" / "bin" / "python"
        _uv("venv", "--python", sys.executable, folder / "venv")
        self.work.mkdir()
        if bare is not None:
            # Links to the same files, and to the byte code that Python has written beside them.
            shutil.copytree(
                bare.packages_folder,
                self.packages_folder,
                copy_function=os.link,
                symlinks=True,
                dirs_exist_ok=True,
            )
        wanted = (
            f"dragoman[{extra}] @ {wheel.as_uri()}" if extra else f"dragoman @ {wheel.as_uri()}"
        )
        again = () if bare is None else ("--reinstall-package", "dragoman")  # writes its command
        # Without the hashes, for pip: where it knows one, it wants one of the wheel as well.
        versions = folder / "versions.txt"
        versions.write_text("".join(f"{line}\n" for line in pinned("dev.txt")))
        self._install("--constraint", str(versions), wanted, *again)
        self._borrow_byte_code()

    def _install(self, *arguments: str) -> None:
        try:
            _uv("pip", "install", "--python", self._python, *arguments)
        except subprocess.CalledProcessError:
            # pip knows an index that is configured for pip alone.
            pip = [sys.executable, "-m", "pip", "--python", str(self._python), "install", "--quiet"]
            subprocess.run([*pip, *arguments], check=True)

    def _borrow_byte_code(self) -> None:
        """Link what Python made of the same files for this environment; compiling takes long.

        The installer links both environments to the one file that it keeps; where it copied them
        instead, Python compiles its own.
        """
        own = Path(sysconfig.get_path("purelib"))
        for source in self.packages_folder.rglob("*.py"):
            place = source.relative_to(self.packages_folder)
            made = Path(cache_from_source(str(own / place)))
            if not made.exists() or not _is_same_file(source, own / place):
                continue
            wanted = Path(cache_from_source(str(source)))
            wanted.parent.mkdir(exist_ok=True)
            if not wanted.exists():
                os.link(made, wanted)

    @property
    def packages_folder(self) -> Path:
        (found,) = (self.folder / "venv" / "lib").glob("python*/site-packages")
        return found

    @property
    def packages(self) -> set[str]:
        """The names of everything that is installed."""
        listed = self.python(
            "from importlib.metadata import distributions\n"
            "print(*(found.name.lower() for found in distributions()), sep='\\n')"
        )
        return set(listed.stdout.split())

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "PATH": f"{self._python.parent}{os.pathsep}{os.defpath}",
            "COLUMNS": "120",
        }

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; it has to succeed."""
        return self._run([str(self._python), "-c", program], {}, expected=0)

    def dragoman(
        self, *arguments: str, expected: int = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; it has to end with the exit code expected."""
        return self._run([self.command, *arguments], env or {}, expected=expected)

    @property
    def command(self) -> str:
        found = shutil.which("dragoman", path=self.environment["PATH"])
        assert found is not None, "the console script is missing"
        return found

    def _run(
        self, command: list[str], env: Mapping[str, str], *, expected: int
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.work,
            env={**self.environment, **env},
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == expected, f"{command}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done


def _is_same_file(one: Path, other: Path) -> bool:
    """Whether the installer linked both to the one file that it had downloaded."""
    return other.exists() and one.stat().st_ino == other.stat().st_ino


def _uv(*arguments: str | Path) -> None:
    subprocess.run(
        [UV, *arguments, "--quiet"], check=True, capture_output=True, timeout=10 * PATIENCE_SECONDS
    )
