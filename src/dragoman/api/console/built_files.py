"""The files that the build of ``web/`` left in the package, each with its compressed forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

BUILT = resources.files("dragoman.api.console") / "built"

_ENCODINGS = {".br": "br", ".gz": "gzip"}
"""How a file that the build has compressed ends; the encoding that takes least bytes first."""

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}

_QUALITY = re.compile(r"^q=([01](?:\.\d{0,3})?)$")


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """One file whose name changes with its content."""

    media_type: str
    plain: bytes
    compressed: Mapping[str, bytes]
    """By encoding, the one that takes least bytes first."""

    def encoded_for(self, accept_encoding: str | None) -> tuple[str | None, bytes]:
        """The smallest form that a browser takes, with the encoding's name."""
        accepted = _accepted(accept_encoding or "")
        for encoding, content in self.compressed.items():
            if encoding in accepted:
                return encoding, content
        return None, self.plain


@dataclass(frozen=True, slots=True)
class BuiltConsole:
    """The whole console as it was built: one page, and the files that it names."""

    page: str
    files: Mapping[str, BuiltFile]
    """By name, without the folder."""
    licences: str
    """Of the packages whose code and typeface are in these files."""


def read_built(folder: Traversable = BUILT) -> BuiltConsole | None:
    """What was built; None in a source tree where nothing was, or an earlier version."""
    page, licences = folder / "index.html", folder / "licences.txt"
    if not (page.is_file() and licences.is_file()):
        return None
    contents = {
        file.name: file.read_bytes() for file in (folder / "assets").iterdir() if file.is_file()
    }
    files = {
        name: BuiltFile(
            media_type=_MEDIA_TYPES[_ending(name)],
            plain=content,
            compressed={
                encoding: contents[name + ending]
                for ending, encoding in _ENCODINGS.items()
                if name + ending in contents
            },
        )
        for name, content in contents.items()
        if _ending(name) in _MEDIA_TYPES
    }
    return BuiltConsole(
        page.read_text(encoding="utf-8"), files, licences.read_text(encoding="utf-8")
    )


def _ending(name: str) -> str:
    return "." + name.rpartition(".")[2]


def _accepted(header: str) -> set[str]:
    """The encodings that a header accepts; one with quality 0 is refused by it."""
    accepted = set()
    for part in header.lower().split(","):
        name, _, parameter = (piece.strip() for piece in part.partition(";"))
        quality = _QUALITY.match(parameter)
        if quality is None or float(quality[1]) > 0:
            accepted.add(name)
    return accepted
