"""What nodes and clients say to a scheduler, as frames."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable, Iterable
from math import pi, sin
from typing import Any, Protocol

import msgspec

from benchmarks.full_job.load import SLOTS_PER_NODE, TEXT

ANSWER = "¿Podría decirme dónde está la estación, por favor?"
SUB_PROTOCOLS = {False: "dragoman.json.v1", True: "dragoman.msgpack.v1"}
LANGUAGES = ("en", "es")


class Told(msgspec.Struct):
    """As much of what a server says as a driver needs to know."""

    kind: str = msgspec.field(name="type")
    job_id: str = ""
    attempt_id: str = ""
    delivery_seq: int = 0
    session_id: str = ""
    utterance_index: int | None = None
    status: str = ""
    code: str = ""
    message: str = ""


class JobFrames(Protocol):
    """Writes the frames of a job's life that drivers send, and reads those that they get."""

    binary: bool
    sub: str | None

    def read(self, payload: bytes) -> Told: ...

    def utterance(self, session: int, index: int) -> bytes: ...

    def job_ack(self, job: Told) -> bytes: ...

    def job_started(self, job: Told) -> bytes: ...

    def job_result(self, job: Told) -> bytes: ...


class DragomanFrames:
    """The real protocol, in either sub-protocol."""

    def __init__(self, *, binary: bool, audio_bytes: int) -> None:
        self.binary = binary
        self.sub: str | None = SUB_PROTOCOLS[binary]
        self._audio_bytes = audio_bytes
        encoder = msgspec.msgpack.Encoder() if binary else msgspec.json.Encoder()
        self._encode: Callable[[Any], bytes] = encoder.encode
        decoder = msgspec.msgpack.Decoder(Told) if binary else msgspec.json.Decoder(Told)
        self._decode: Callable[[bytes], Told] = decoder.decode
        self._speech = self.encoded(bytes(audio_bytes)) if audio_bytes else None

    def read(self, payload: bytes) -> Told:
        return self._decode(payload)

    def node_register(self, number: int) -> bytes:
        return self._encode(
            {
                "type": "node_register",
                "node_id": f"bench-{number}",
                "version": "1",
                "schema_version": "2.0",
                "platform": "bench",
                "hardware": {"cpu_cores": 8, "memory_gb": 32},
                "services": [
                    {"service_id": kind, "type": kind, "device": "cpu", "status": "running"}
                    for kind in ("asr", "nmt", "tts")
                ],
                "languages": {
                    "asr_langs": LANGUAGES,
                    "semantic_langs": (),
                    "nmt_langs": LANGUAGES,
                    "tts_langs": LANGUAGES,
                },
                "max_concurrent_jobs": SLOTS_PER_NODE,
            }
        )

    def node_heartbeat(self, running: Iterable[Told] = ()) -> bytes:
        usage = {"cpu_percent": 10, "mem_percent": 10}
        jobs = [{"job_id": job.job_id, "attempt_id": job.attempt_id} for job in running]
        return self._encode({"type": "node_heartbeat", "resource_usage": usage, "running": jobs})

    def job_ack(self, job: Told) -> bytes:
        return self._about("job_ack", job)

    def job_started(self, job: Told) -> bytes:
        return self._about("job_started", job)

    def job_result(self, job: Told) -> bytes:
        said = {"text_asr": TEXT} if self._audio_bytes else {}
        return self._about("job_result", job, success=True, text_translated=ANSWER, **said)

    def session_init(self, vad: str | None = None) -> bytes:
        source, target = LANGUAGES
        said = {"type": "session_init", "src_lang": source, "tgt_lang": target}
        return self._encode(said if vad is None else {**said, "vad": vad})

    def utterance(self, session: int, index: int) -> bytes:
        said = {"text": TEXT} if self._speech is None else {"audio": self._speech}
        return self._encode({"type": "utterance", "utterance_index": index, **said})

    def audio_chunk(self, seq: int, payload: msgspec.Raw, *, is_final: bool) -> bytes:
        return self._encode(
            {"type": "audio_chunk", "seq": seq, "is_final": is_final, "payload": payload}
        )

    def audio(self, size_bytes: int) -> msgspec.Raw:
        """Silence, to be used in one frame after another."""
        return self.encoded(bytes(size_bytes))

    def voice(self, speech_ms: int, whole_ms: int, chunk_ms: int) -> list[msgspec.Raw]:
        """A sound that is heard as a voice, and then silence, in chunks."""
        tone = [
            sum(sin(2 * pi * 140 * part * at / 16_000) / part for part in range(1, 20))
            * (1.2 + sin(2 * pi * 4 * at / 16_000))
            for at in range(speech_ms * 16)
        ]
        samples = array("h", [int(3000 * value) for value in tone])
        sound = samples.tobytes() + bytes((whole_ms - speech_ms) * 32)
        size = chunk_ms * 32
        return [self.encoded(sound[at : at + size]) for at in range(0, len(sound), size)]

    def client_heartbeat(self, last_delivery_seq: int) -> bytes:
        return self._encode({"type": "client_heartbeat", "last_delivery_seq": last_delivery_seq})

    def _about(self, kind: str, job: Told, **fields: object) -> bytes:
        return self._encode(
            {"type": kind, "job_id": job.job_id, "attempt_id": job.attempt_id, **fields}
        )

    def encoded(self, audio: bytes) -> msgspec.Raw:
        return msgspec.Raw(self._encode(audio if self.binary else base64.b64encode(audio).decode()))
