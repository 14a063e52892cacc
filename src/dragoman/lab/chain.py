"""Chains: what is wrapped around the handling of an event, each link around the next."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

Event = TypeVar("Event")

Handler = Callable[[Event], Coroutine[Any, Any, None]]

Link = Callable[[Event, Handler[Event]], Coroutine[Any, Any, None]]
"""Handles an event, itself or by calling the handler that follows it in the chain."""


def chain(links: Sequence[Link[Event]], last: Handler[Event]) -> Handler[Event]:
    """One handler out of links, the outermost first, and the one that does the work."""
    handler = last
    for link in reversed(links):
        handler = partial(_call, link, handler)
    return handler


async def _call(link: Link[Event], following: Handler[Event], event: Event) -> None:
    await link(event, following)
