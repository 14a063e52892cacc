"""A client for the cluster's routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from dragoman.api import ClusterShown, LetterShown
from dragoman.cli.server_client import ServerClient

_LETTERS = "/cluster/dead-letters"


class ClusterClient:
    """Asks any instance about the cluster."""

    def __init__(self, server: ServerClient) -> None:
        self._server = server

    async def cluster(self) -> ClusterShown:
        return await self._server.ask(ClusterShown, "GET", "/cluster")

    def letters(self) -> AsyncIterator[LetterShown]:
        """Every dead letter, oldest first."""
        return self._server.pages(LetterShown, _LETTERS)

    async def replay(self, letter_id: str) -> None:
        await self._server.ask(Any, "POST", f"{_LETTERS}/{quote(letter_id, safe='')}/replay")

    async def drop(self, letter_id: str) -> None:
        await self._server.ask(Any, "DELETE", f"{_LETTERS}/{quote(letter_id, safe='')}")
