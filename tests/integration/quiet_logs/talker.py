"""A client that says things a log must never repeat, and remembers what it was answered."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from tests.integration.serve.server_process import PATIENCE_SECONDS
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

WORDS = "the parcel is MARKER-5e1f9c under the bridge"
SOUND_PATTERN = b"AUDIOMARK-9b"
SOUND = SOUND_PATTERN * 1000
SECRETS = (
    WORDS,
    "MARKER-5e1f9c",
    SOUND_PATTERN.decode(),
    SOUND_PATTERN.hex(),
    # The pattern is a multiple of three bytes long: it looks the same throughout in base64.
    b64encode(SOUND_PATTERN).decode(),
)

Body = dict[str, Any]


def assert_quiet(written: str, secrets: list[str] | tuple[str, ...]) -> None:
    """Nothing of it is in the text, as it is or as JSON writes it."""
    for secret in secrets:
        assert secret not in written, f"{secret!r} was written"
        assert json.dumps(secret)[1:-1] not in written, f"{secret!r} was written as JSON"


class Talker:
    """Talks through real sockets."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._url = url.replace("http", "ws", 1) + "/ws/session"
        self._key = key
        self.heard: list[str] = []
        """Texts and audio that came back, and tokens: not for the log either."""

    def type(self, source: str, target: str) -> None:
        """Say the words as text, with the key in the address."""
        self._talk(
            {"src_lang": source, "tgt_lang": target},
            [{"type": "utterance", "utterance_index": 0, "text": WORDS}],
            in_address=True,
        )

    def speak(self, source: str, target: str) -> None:
        """Say the sound as chunks of audio, with the key in a header."""
        sound = b64encode(SOUND).decode()
        chunks = [
            {"type": "audio_chunk", "seq": seq, "is_final": seq == 2, "payload": sound}
            for seq in range(3)
        ]
        self._talk({"src_lang": source, "tgt_lang": target}, chunks, in_address=False)

    def babble(self) -> None:
        """Say what makes no sense, before and after there is a session."""
        broken: list[str | bytes] = [
            json.dumps({"type": WORDS, "text": WORDS}),
            json.dumps({"type": "utterance", "utterance_index": WORDS, "text": WORDS}),
            json.dumps({"type": "utterance", "utterance_index": 7, "text": WORDS}),
            json.dumps({"type": "audio_chunk", "seq": 0, "is_final": 3, "payload": WORDS}),
            "{" + WORDS,
            WORDS,
            SOUND,
        ]
        init = json.dumps({"type": "session_init", "src_lang": "en", "tgt_lang": "es"})
        goodbye = json.dumps({"type": "session_close"})
        talks: list[list[str | bytes]] = [[broken[2]], [broken[0]], [init, *broken, goodbye]]
        for frames in talks:
            with connect(self._url, additional_headers=self._headers) as socket:
                for frame in frames:
                    socket.send(frame)
                with suppress(ConnectionClosed):
                    while True:
                        self._take(json.loads(socket.recv(timeout=PATIENCE_SECONDS)))

    @property
    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    def _talk(self, init: Body, said: list[Body], *, in_address: bool) -> None:
        headers, address = self._headers, self._url
        if in_address and self._key is not None:
            headers, address = {}, f"{self._url}?{urlencode({'token': self._key})}"
        with connect(address, additional_headers=headers, max_size=None) as socket:
            for message in ({"type": "session_init", **init}, *said):
                socket.send(json.dumps(message))
            while True:
                answer = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
                self._take(answer)
                if answer["type"] in ("translation_result", "missing_result"):
                    break
            socket.send(json.dumps({"type": "session_close"}))
            for late in socket:
                self._take(json.loads(late))

    def _take(self, message: Body) -> None:
        for name in ("text_asr", "text_translated", "tts_audio", "resume_token"):
            if value := message.get(name):
                self.heard.append(value[:60])
