"""Why a server could not start."""

from __future__ import annotations

from dragoman.errors import DragomanError


class CannotStart(DragomanError):
    """Raised when the address or the folder that a server was given cannot be used."""

    code = "CANNOT_START"
    status = 503
