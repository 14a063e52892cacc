"""The TypeScript client as a package, the way in which others get it."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[3]


def packed_client(folder: Path) -> Path:
    """Pack the client, and unpack it into ``node_modules`` of the folder; where it lies there."""
    subprocess.run([ROOT / ".ci" / "web", "client", folder], check=True, capture_output=True)
    (archive,) = folder.glob("dragoman-client-*.tgz")
    package = folder / "node_modules" / "@dragoman" / "client"
    package.parent.mkdir(parents=True)
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (folder / "package").rename(package)
    return package
