"""One connection after another to a scheduler, over whatever transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar, runtime_checkable

from dragoman.errors import InvalidMessage, PayloadTooLarge
from dragoman.live.protocol import Message

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)

NO_GOODBYE = 1006
"""The code that stands for a connection that broke without a close frame."""


class LinkClosed(ConnectionError):
    """Raised when one reads from, or writes to, a link that has ended."""

    def __init__(self, code: int = NO_GOODBYE, reason: str = "") -> None:
        super().__init__(f"the connection was closed: {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


def check_frame(frame: bytes | str, max_frame_bytes: int | None) -> None:
    """Refuse a frame that the other side would close the connection over."""
    if max_frame_bytes is None or len(frame) * 4 <= max_frame_bytes:
        return  # a character of text takes at most four bytes
    size = len(frame.encode()) if isinstance(frame, str) else len(frame)
    if size > max_frame_bytes:
        raise PayloadTooLarge(
            f"the message takes {size} bytes, and the scheduler reads at most {max_frame_bytes} in"
            " a frame; send less, or raise limits.max_frame_bytes of the scheduler"
        )


class Unreachable(ConnectionError):
    """Raised when no connection could be made; the message says why."""


class Link(Protocol[M_co]):
    """One connection to a scheduler."""

    async def send(self, message: Message) -> None:
        """Send a message; raises LinkClosed when the connection has ended."""
        ...

    async def receive(self) -> M_co:
        """The next message; raises LinkClosed at the end, InvalidMessage for a malformed one."""
        ...

    async def close(self) -> None:
        """Say goodbye; closing again changes nothing."""
        ...


@runtime_checkable
class LimitsFrames(Protocol):
    """A link that can keep to the largest frame that the scheduler reads."""

    def limit(self, max_frame_bytes: int) -> None:
        """From now on `send` refuses a message that takes more, with PayloadTooLarge."""
        ...


@runtime_checkable
class SendsNow(Protocol):
    """A link that can send without waiting, while the network is not slow."""

    def send_now(self, message: Message) -> bool:
        """Send a message if there is room; False when there is not, or when the link has ended."""
        ...


@runtime_checkable
class HandsOver(Protocol[M_co]):
    """A link that hands messages over where they arrive, without a task that waits for each."""

    async def listen(
        self, hear: Callable[[M_co], None], ignored: Callable[[InvalidMessage], None]
    ) -> NoReturn:
        """Call `hear` with each message until the link ends with LinkClosed, or `hear` raises.

        `ignored` gets what is wrong with a malformed message.
        """
        ...


async def listen(
    link: Link[M], hear: Callable[[M], None], ignored: Callable[[InvalidMessage], None]
) -> NoReturn:
    """Call `hear` with each message of any link; raises LinkClosed, or what `hear` raises."""
    if isinstance(link, HandsOver):
        await link.listen(hear, ignored)
    while True:
        try:
            message = await link.receive()
        except InvalidMessage as error:
            ignored(error)
        else:
            hear(message)


class Connect(Protocol[M_co]):
    """Makes a new link to the scheduler, or raises Unreachable."""

    async def __call__(self) -> Link[M_co]: ...
