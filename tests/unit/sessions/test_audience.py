"""Listeners of a session get each result once, in order, and in frames that are made once."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.errors import RateLimited
from dragoman.ids import JobId, NodeId, RequestId, SessionId
from dragoman.live.protocol import (
    TO_LISTENER,
    MissingResult,
    Scheduling,
    SubProtocol,
    TranslationResult,
)
from dragoman.live.sessions import audience as audience_module
from dragoman.live.sessions.audience import Audience, Form, Frame, listen_token

ES = Form("es", SubProtocol.JSON, audio=False)
TIMES = Scheduling(0, 0, 0, 0, 1)


def result(seq: int, lang: str = "es", audio: bytes | None = b"sound") -> TranslationResult:
    return TranslationResult(
        delivery_seq=seq,
        session_id=SessionId("s-1"),
        utterance_index=seq - 1,
        tgt_lang=lang,
        job_id=JobId("j"),
        request_id=RequestId("r"),
        scheduling=TIMES,
        text_translated=f"text {seq}",
        tts_audio=audio,
        node_id=NodeId("n-1"),
    )


class Ear:
    """A listener that keeps what it is sent."""

    def __init__(self, form: Form = ES) -> None:
        self.form = form
        self.frames: list[Frame] = []
        self.acks: list[tuple[int, bool]] = []
        self.end = ""

    def send_frame(self, frame: Frame) -> bool:
        self.frames.append(frame)
        return True

    def admitted(self, last_delivery_seq: int, *, complete: bool) -> None:
        self.acks.append((last_delivery_seq, complete))

    def finished(self) -> None:
        self.end = "finished"

    def moved(self) -> None:
        self.end = "moved"

    @property
    def seqs(self) -> list[int]:
        messages = [TO_LISTENER.decode(frame, self.form.sub) for frame in self.frames]
        return [
            m.delivery_seq for m in messages if isinstance(m, TranslationResult | MissingResult)
        ]


def audience(most: int = 0, keep: int = 10, next_seq: int = 1) -> Audience:
    return Audience(most, keep, 1 << 20, next_seq)


async def settled() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def test_each_listener_gets_its_language_and_the_same_frame() -> None:
    async def story() -> None:
        hall, one, two = audience(), Ear(), Ear()
        german, loud = (
            Ear(Form("de", SubProtocol.JSON, False)),
            Ear(Form("es", SubProtocol.JSON, True)),
        )
        for ear in (one, two, german, loud):
            hall.join(ear, None)
        hall.deliver(result(1))
        hall.deliver(result(2, "de"))
        hall.deliver(result(3, "ES"))
        await settled()
        assert (one.seqs, german.seqs) == ([1, 3], [2])
        assert all(a is b for a, b in zip(one.frames, two.frames, strict=True)), "made once"
        quiet = TO_LISTENER.decode(one.frames[0], SubProtocol.JSON)
        heard = TO_LISTENER.decode(loud.frames[0], SubProtocol.JSON)
        assert isinstance(quiet, TranslationResult)
        assert isinstance(heard, TranslationResult)
        assert (quiet.tts_audio, heard.tts_audio) == (None, b"sound")
        assert quiet.node_id is None

    asyncio.run(story())


def test_a_listener_that_resumes_gets_what_it_missed_and_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It joins while results are still on their way to others."""
    monkeypatch.setattr(audience_module, "SENDS_A_TURN", 2)

    async def story() -> None:
        hall = audience()
        early = [Ear() for _ in range(7)]
        for ear in early:
            hall.join(ear, None)
        for seq in (1, 2, 3):
            hall.deliver(result(seq))
        late = Ear()
        hall.join(late, 1)
        hall.deliver(result(4))
        await settled()
        assert [ear.seqs for ear in early] == [[1, 2, 3, 4]] * 7
        assert late.seqs == [2, 3, 4]
        assert late.acks == [(1, True)]

    asyncio.run(story())


def test_what_is_no_longer_kept_is_told() -> None:
    async def story() -> None:
        hall = audience(keep=2)
        hall.join(Ear(), None)
        for seq in range(1, 6):
            hall.deliver(result(seq))
        late = Ear()
        hall.join(late, 1)
        assert late.acks == [(1, False)]
        assert late.seqs == [4, 5]
        fresh = Ear()
        hall.join(fresh, None)
        assert fresh.acks == [(5, True)]
        assert fresh.seqs == []

    asyncio.run(story())


def test_results_that_the_speaker_has_not_acknowledged_are_there_for_the_first_listener() -> None:
    async def story() -> None:
        hall = Audience(0, 10, 1 << 20, 4, [result(2), result(3)])
        ear = Ear()
        hall.join(ear, 0)
        assert ear.seqs == [2, 3]
        assert ear.acks == [(0, False)]

    asyncio.run(story())


def test_there_are_no_more_listeners_than_allowed_and_who_leaves_makes_room() -> None:
    async def story() -> None:
        hall, first = audience(most=1), Ear()
        hall.join(first, None)
        with pytest.raises(RateLimited, match="listeners_per_session"):
            hall.join(Ear(), None)
        hall.leave(first)
        hall.leave(first)
        hall.join(Ear(), None)
        assert len(hall) == 1

    asyncio.run(story())


def test_at_the_end_everything_is_sent_before_the_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience_module, "SENDS_A_TURN", 1)

    async def story() -> None:
        hall, ears = audience(), [Ear() for _ in range(5)]
        for ear in ears:
            hall.join(ear, None)
        hall.deliver(result(1))
        hall.deliver(result(2))
        hall.close(moved=False)
        assert [ear.seqs for ear in ears] == [[1, 2]] * 5
        assert {ear.end for ear in ears} == {"finished"}
        await settled()
        assert [ear.seqs for ear in ears] == [[1, 2]] * 5

    asyncio.run(story())


def test_the_token_of_listeners_is_not_what_proves_the_speakers() -> None:
    assert listen_token("a") == listen_token("a") != listen_token("b")
    assert "a" * 64 not in listen_token("a" * 64)
