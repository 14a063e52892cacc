"""The queue between processes: what is given here is sent on, what others send is given here.

A process hears its own stops and news at once, and those of others through the server. While the
server is away, hints wait, the oldest are dropped, and each process goes on by its safety tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Hashable, Iterator, Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from dragoman.clock import Clock
from dragoman.lab.feed import Change, ItemsArchived
from dragoman.lab.model import ItemKey, RunId
from dragoman.lab.queue.in_process import UNREAD_HINTS_MAX, InProcessTopic
from dragoman.lab.queue.interface import ItemOffer
from dragoman.observability import get_logger

Hint = TypeVar("Hint", bound=Hashable)

KEYS_IN_A_MESSAGE = 50
"""Items that one message names at most: servers limit the length of a message."""

AWAY_PAUSE_SECONDS = 0.5
"""The pause before a server that is away is tried again."""

CLOSING_SECONDS = 1.0
"""How long the last hints of a process that stops may take."""


class TopicName(StrEnum):
    """The kinds of hints that travel."""

    OFFERS = "offers"
    STOPS = "stops"
    NEWS = "news"
    CHANGES = "changes"


class CarriedHint(msgspec.Struct, frozen=True):
    """A hint as the server carries it."""

    topic: TopicName
    payload: bytes


class LinkDown(Exception):
    """Raised when the server that carries the hints cannot be reached."""


class QueueLink(Protocol):
    """The way through a server."""

    keys_in_an_offer: int
    """How many items one offer names at most; 0: none, workers ask the database."""

    async def send(self, messages: Sequence[CarriedHint]) -> None:
        """Send hints to the other processes; raises `LinkDown`."""
        ...

    def hear(self) -> AsyncGenerator[CarriedHint]:
        """What all processes are told, from now on; raises `LinkDown`."""
        ...

    async def close(self) -> None: ...


class OfferSource(Protocol):
    """A server that gives each offer to one worker."""

    async def next_offers(self, items: int) -> Sequence[bytes]:
        """Offers for this process alone, of about so many items, at least one offer.

        None at all when none came for a while. Raises `LinkDown`.
        """
        ...


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    origin: str
    hint: msgspec.Raw


_envelopes = msgspec.json.Decoder(_Envelope)


class RemoteTopic(Generic[Hint]):
    """Hints that every process hears."""

    def __init__(
        self, queue: RemoteQueue, name: TopicName, kind: Any, *, heard_here: bool = False
    ) -> None:
        """`heard_here`: the process that gives a hint hears it at once, without the server."""
        self._queue = queue
        self._name = name
        self._decoder: msgspec.json.Decoder[Hint] = msgspec.json.Decoder(kind)
        self._heard_here = heard_here
        self._inbox: InProcessTopic[Hint] = InProcessTopic()
        self._is_read = False

    def put(self, hint: Hint) -> None:
        if self._heard_here:
            self._inbox.put(hint)
        self._queue.send(self._name, hint)

    async def take(self) -> Sequence[Hint]:
        self._is_read = True
        self._queue.listen()
        return await self._inbox.take()

    def arrived(self, hint: msgspec.Raw) -> None:
        """Give the reader a hint of another process; one of another version is left out."""
        if self._is_read:
            try:
                self._inbox.put(self._decoder.decode(hint))
            except msgspec.MsgspecError:
                return


class SharedOffers:
    """Offers of which each reaches one worker, which asks for the next when it has room."""

    def __init__(self, queue: RemoteQueue, source: OfferSource) -> None:
        self._queue = queue
        self._source = source
        self._decoder = msgspec.json.Decoder(ItemOffer)
        self._unsent: dict[ItemOffer, None] = {}

    def put(self, hint: ItemOffer) -> None:
        self._queue.send(TopicName.OFFERS, hint)

    async def take(self, items: int = 1) -> Sequence[ItemOffer]:
        while not self._unsent:
            try:
                payloads = await self._source.next_offers(items)
            except LinkDown as error:
                await self._queue.wait_for_server(error)
                continue
            offers = []
            for payload in payloads:
                try:
                    offers.append(self._decoder.decode(_envelopes.decode(payload).hint))
                except msgspec.MsgspecError:  # of another version
                    continue
            if offers:
                return offers
        unsent, self._unsent = list(self._unsent), {}
        return unsent

    def not_sent(self, payload: bytes) -> None:
        """Keep an offer for this process's own worker, while others cannot be told."""
        if len(self._unsent) < UNREAD_HINTS_MAX:
            self._unsent[self._decoder.decode(_envelopes.decode(payload).hint)] = None


class RemoteQueue:
    """Schedulers and workers in several processes, on one machine or many."""

    def __init__(
        self, link: QueueLink, origin: str, clock: Clock, source: OfferSource | None = None
    ) -> None:
        """`origin` is the name of this process, by which it knows its own messages.

        `source` gives offers to one worker each; without it, all workers are told of all offers.
        """
        self._link = link
        self._origin = origin
        self._log = get_logger(__name__, clock)
        self._outbox: dict[CarriedHint, None] = {}
        self._something_to_send = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None
        self.stops: RemoteTopic[RunId] = RemoteTopic(self, TopicName.STOPS, str, heard_here=True)
        self.news: RemoteTopic[RunId] = RemoteTopic(self, TopicName.NEWS, str, heard_here=True)
        self.changes: RemoteTopic[Change] = RemoteTopic(self, TopicName.CHANGES, Change)
        self._shared = None if source is None else SharedOffers(self, source)
        self._told: RemoteTopic[ItemOffer] = RemoteTopic(self, TopicName.OFFERS, ItemOffer)
        self._topics: dict[TopicName, RemoteTopic[Any]] = {
            TopicName.STOPS: self.stops,
            TopicName.NEWS: self.news,
            TopicName.CHANGES: self.changes,
            TopicName.OFFERS: self._told,
        }

    @property
    def gives_offers_once(self) -> bool:
        return self._shared is not None

    @property
    def offers(self) -> RemoteTopic[ItemOffer] | SharedOffers:
        return self._shared or self._told

    async def take_offers(self, items: int) -> Sequence[ItemOffer]:
        if self._shared is not None:
            return await self._shared.take(items)
        return await self._told.take()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                while self._outbox:
                    await self._send_waiting()
        except (LinkDown, TimeoutError):
            pass  # they are hints: the safety tick of others finds the work
        tasks = [task for task in (self._sending, self._hearing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.close()

    # --- what topics use --------------------------------------------------------------------------

    def send(self, name: TopicName, hint: Hashable) -> None:
        """Have a hint sent, soon; never waits, never fails."""
        for piece in _pieces(hint, self._link.keys_in_an_offer):
            envelope = _Envelope(self._origin, msgspec.Raw(msgspec.json.encode(piece)))
            self._outbox[CarriedHint(name, msgspec.json.encode(envelope))] = None
        while len(self._outbox) > UNREAD_HINTS_MAX:
            del self._outbox[next(iter(self._outbox))]
        self._something_to_send.set()
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), name="the queue's sender")

    def listen(self) -> None:
        """Hear what other processes say from now on."""
        if self._hearing is None:
            self._hearing = asyncio.create_task(self._hear_all(), name="the queue's listener")

    async def wait_for_server(self, error: LinkDown) -> None:
        """Pause before the server is tried again, and say why."""
        self._log.warning_limited("lab_queue_away", key="", every_seconds=10, reason=str(error))
        await asyncio.sleep(AWAY_PAUSE_SECONDS)

    # --- loops ------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        while True:
            await self._something_to_send.wait()
            self._something_to_send.clear()
            try:
                await self._send_waiting()
            except LinkDown as error:
                await self.wait_for_server(error)
                self._something_to_send.set()

    async def _send_waiting(self) -> None:
        """Send what has come together; what is put meanwhile travels with the next."""
        messages, self._outbox = list(self._outbox), {}
        if not messages:
            return
        try:
            await self._link.send(messages)
        except LinkDown:
            self._keep(messages)
            raise

    def _keep(self, messages: Sequence[CarriedHint]) -> None:
        for message in messages:
            if message.topic is TopicName.OFFERS and self._shared is not None:
                self._shared.not_sent(message.payload)
        # News of runs that ended meanwhile and offers that were taken are harmless.
        kept = [one for one in messages if one.topic is not TopicName.OFFERS]
        room = UNREAD_HINTS_MAX - len(self._outbox)
        self._outbox = {**dict.fromkeys(kept[-room:] if room > 0 else ()), **self._outbox}

    async def _hear_all(self) -> None:
        while True:
            try:
                async with aclosing(self._link.hear()) as messages:
                    async for message in messages:
                        self._arrived(message)
            except LinkDown as error:
                await self.wait_for_server(error)
            except Exception:
                self._log.exception("lab_queue_failed")
                await asyncio.sleep(AWAY_PAUSE_SECONDS)

    def _arrived(self, message: CarriedHint) -> None:
        try:
            envelope = _envelopes.decode(message.payload)
        except msgspec.MsgspecError:  # of another version
            return
        # Its own stops and news it has heard already; its own offers it takes as others do.
        if envelope.origin != self._origin or message.topic is TopicName.OFFERS:
            self._topics[message.topic].arrived(envelope.hint)


def _pieces(hint: Hashable, keys_in_an_offer: int) -> Iterator[object]:
    """The hint in messages of a length that servers carry."""
    if isinstance(hint, ItemOffer):
        if not keys_in_an_offer:
            yield ItemOffer(hint.run_id, ())
        for keys in _batches(hint.keys, keys_in_an_offer):
            yield ItemOffer(hint.run_id, keys)
    elif isinstance(hint, ItemsArchived):
        for keys in _batches(hint.keys, KEYS_IN_A_MESSAGE):
            yield msgspec.structs.replace(hint, keys=keys)
    else:
        yield hint


def _batches(keys: tuple[ItemKey, ...], size: int) -> Iterator[tuple[ItemKey, ...]]:
    if size:
        for start in range(0, len(keys), size):
            yield keys[start : start + size]
