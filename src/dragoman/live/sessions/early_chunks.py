"""Chunks that came before one with a lower number."""

from __future__ import annotations

from heapq import heappop, heappush


class EarlyChunks:
    """Holds early chunks until their turn comes, lowest first.

    Only chunks that came take room, however far apart their numbers are.
    """

    def __init__(self) -> None:
        self.first_seq: int | None = None
        self._chunks: dict[int, tuple[bytes, float]] = {}
        self._order: list[int] = []
        self.count = 0
        self.size_bytes = 0
        self.duration_ms = 0.0

    def __len__(self) -> int:
        return self.count

    def __contains__(self, seq: int) -> bool:
        return seq in self._chunks

    def hold(self, seq: int, payload: bytes, duration_ms: float) -> None:
        self._chunks[seq] = (payload, duration_ms)
        heappush(self._order, seq)
        self.count += 1
        self.first_seq = self._order[0]
        self.size_bytes += len(payload)
        self.duration_ms += duration_ms

    def take_first(self) -> bytes:
        payload, duration_ms = self._chunks.pop(heappop(self._order))
        self.count -= 1
        self.size_bytes -= len(payload)
        self.duration_ms -= duration_ms
        if self._order:
            self.first_seq = self._order[0]
        else:
            self.first_seq = None
            self.duration_ms = 0.0  # sums of floats drift
        return payload
