"""Chains: handlers of an event, each wrapped around the next."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

Event = TypeVar("Event")

Handler = Callable[[Event], Coroutine[Any, Any, None]]

Link = Callable[[Event, Handler[Event]], Coroutine[Any, Any, None]]
"""Handles an event, itself or by calling the next handler in the chain."""


def chain(links: Sequence[Link[Event]], last: Handler[Event]) -> Handler[Event]:
    """Make one handler of the links, outermost first, and the handler that does the work."""
    handler = last
    for link in reversed(links):
        handler = partial(_call, link, handler)
    return handler


async def _call(link: Link[Event], following: Handler[Event], event: Event) -> None:
    await link(event, following)
