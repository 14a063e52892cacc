"""The metrics of two processes as one answer to Prometheus."""

from __future__ import annotations

import httpx

from dragoman.api.lab.forwarding import Forwarder
from dragoman.errors import DragomanError

METRICS_PATH = "/metrics"
_FAMILY_MARKS = (b"# HELP ", b"# TYPE ")
LAB_NAMESPACE = "lab"
"""What the names of the lab's metrics begin with."""

_LAB = f"{LAB_NAMESPACE}_".encode()


async def with_those_of_the_lab(own: bytes, forwarder: Forwarder) -> bytes:
    """The server's metrics with the lab's, or without any when the lab does not answer.

    The server's own zeros in their place would look as if every counter of the lab had started
    anew, and Prometheus would count everything again once the lab is back.
    """
    try:
        return joined(own, await forwarder.fetch(METRICS_PATH))
    except (DragomanError, httpx.HTTPError):
        return joined(own, b"")


def joined(own: bytes, of_the_lab: bytes) -> bytes:
    """The server's metrics, with those of the lab as the lab's process counts them.

    Both processes declare every metric, and each counts only its own.
    """
    kept = [line for line in own.splitlines(keepends=True) if not _is_of_the_lab(line)]
    added = [line for line in of_the_lab.splitlines(keepends=True) if _is_of_the_lab(line)]
    return b"".join((*kept, *added))


def only_of_the_lab(exposition: bytes) -> bytes:
    """What a process tells that has a lab and no live plane."""
    return joined(b"", exposition)


def _is_of_the_lab(line: bytes) -> bool:
    for mark in _FAMILY_MARKS:
        line = line.removeprefix(mark)
    return line.startswith(_LAB)
