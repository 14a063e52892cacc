"""Dead letters on Redis: those of all instances in one place."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.ids import InstanceId
from dragoman.live.cluster.answers import (
    Burial,
    ClusterTerms,
    DeadLetter,
    InboxFull,
    InstanceGone,
    NoSuchLetter,
    Posted,
    letter_id_of,
)
from dragoman.live.cluster.redis.tags import Tags

_POST_ANSWERS: dict[bytes, Posted | InboxFull | InstanceGone] = {
    b"posted": Posted(),
    b"full": InboxFull(),
    b"gone": InstanceGone(),
}


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A dead letter as it is stored; the server adds when."""

    instance_id: InstanceId
    reason: Burial
    deliveries: int
    written: bytes


_pack = msgspec.msgpack.Encoder().encode
_kept = msgspec.msgpack.Decoder(_Kept)


class DeadLetterOperations:
    """Notes that could not be handled."""

    _tags: Tags
    _terms: ClusterTerms
    _instance_id: InstanceId

    async def letters(self, count: int = 100, after: str = "") -> tuple[DeadLetter, ...]:
        flat = await self._tags.ask_dead_letters("letters", (count, after))
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return tuple(_letter(letter_id.decode(), stored) for letter_id, stored in pairs)

    async def replay(self, letter_id: str) -> Posted | InboxFull | InstanceGone | NoSuchLetter:
        found = await self._tags.ask_dead_letters("letter", (letter_id,))
        if not found:
            return NoSuchLetter()
        letter = _letter(letter_id, found[0])
        answer = await self._post(letter.instance_id, letter.written)
        if isinstance(answer, Posted):
            await self.drop((letter_id,))
        return answer

    async def drop(self, letter_ids: Sequence[str]) -> int:
        (dropped,) = await self._tags.ask_dead_letters("drop", tuple(letter_ids))
        return int(dropped)

    async def _post(self, to: InstanceId, *written: bytes) -> Posted | InboxFull | InstanceGone:
        (answer,) = await self._tags.ask_instance(to, "post", (self._terms.inbox_max,), *written)
        return _POST_ANSWERS[answer]

    async def _bury(self, entry_id: str, reason: Burial, deliveries: int, written: bytes) -> None:
        await self._tags.ask_dead_letters(
            "bury",
            (
                letter_id_of(self._instance_id, entry_id),
                self._instance_id,
                self._terms.dead_letters_max,
            ),
            _pack(_Kept(self._instance_id, reason, deliveries, written)),
        )


def _letter(letter_id: str, stored: bytes) -> DeadLetter:
    buried_at_ms, _, packed = stored.partition(b":")
    kept = _kept.decode(packed)
    return DeadLetter(
        letter_id=letter_id,
        instance_id=kept.instance_id,
        reason=kept.reason,
        deliveries=kept.deliveries,
        buried_at_ms=int(buried_at_ms),
        written=kept.written,
    )
