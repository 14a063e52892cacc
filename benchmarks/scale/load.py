"""What one driver is to do, and what came of it."""

from __future__ import annotations

import msgspec

from benchmarks.full_job.frames import DragomanFrames

TARGETS = ("es", "fr", "de", "it", "pt", "nl", "pl", "sv", "da", "cs", "fi", "hu")
"""Sessions of instance i ask for the i-th. The nodes of that instance and of the next one speak it,
so that half of all jobs go to another instance, however many there are."""

READY = "ready"
GO = "go"


class ScaleLoad(msgspec.Struct, frozen=True):
    """The share of one driver: nodes and sessions by their numbers, spread over the instances."""

    ports: tuple[int, ...]
    """Of the instances."""
    nodes: tuple[int, ...]
    sessions: tuple[int, ...]
    warm_up_seconds: float
    seconds: float


class ScaleOutcome(msgspec.Struct, frozen=True):
    """What a driver saw in the time measured."""

    jobs: int
    seconds: float
    driver_cpu_seconds: float


class PairFrames(DragomanFrames):
    """Frames of nodes and sessions at one of several instances."""

    def __init__(self, instance: int, instances: int) -> None:
        super().__init__(binary=True, audio_bytes=0)
        before = (instance - 1) % instances
        self._target = TARGETS[instance]
        self._languages = sorted({"en", self._target, TARGETS[before]})

    def node_register(self, number: int) -> bytes:
        return self._encode(
            {
                **msgspec.msgpack.decode(super().node_register(number)),
                "languages": {
                    "asr_langs": self._languages,
                    "semantic_langs": [],
                    "nmt_langs": self._languages,
                    "tts_langs": self._languages,
                },
            }
        )

    def session_init(self, vad: str | None = None) -> bytes:
        init = msgspec.msgpack.decode(super().session_init(vad))
        return self._encode({**init, "tgt_lang": self._target})
