"""How an attempt's steps and partials travel to the instance that drives its job."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.live.dispatch import Progress


class StepNews(msgspec.Struct, frozen=True, array_like=True, tag="step"):
    """The attempt took a step."""

    progress: Progress


class PartialNews(msgspec.Struct, frozen=True, array_like=True, tag="partial"):
    """What the node has recognised so far."""

    text: str
    is_final: bool


_Payload: TypeAlias = StepNews | PartialNews

write_progress = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Payload)


def read_progress(payload: bytes) -> StepNews | PartialNews | None:
    """None for news that this version of Dragoman cannot read."""
    try:
        news: StepNews | PartialNews = _decoder.decode(payload)
    except msgspec.DecodeError:
        return None
    return news
