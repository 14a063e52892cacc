"""A session over one good connection."""

from __future__ import annotations

import asyncio
import os
from array import array
from typing import Any

import pytest
from tests.unit.sdk_session.scene import Scene, play

from dragoman.errors import InvalidMessage, RateLimited, SessionClosed
from dragoman.live.protocol import (
    AsrPartial,
    Backpressure,
    BackpressureAction,
    ClientHeartbeat,
    TranslationResult,
)
from dragoman.sdk import Missing, SessionClient, SessionInterrupted, SessionOptions, talk
from dragoman.sdk.session import client as client_module


def test_texts_come_back_translated_and_in_order() -> None:
    async def script(scene: Scene) -> None:
        scene.work_seconds = lambda random: random.uniform(0.1, 3.0)
        async with scene.client() as session:
            for number in range(10):
                assert await session.say(f"word {number}") == number
            await session.close()
            results = [result async for result in session.results()]
        assert [result.utterance_index for result in results] == list(range(10))
        texts = [r.text_translated for r in results if isinstance(r, TranslationResult)]
        assert texts == [f"WORD {number}" for number in range(10)]

    play(script)


def test_audio_is_sent_in_pieces_and_arrives_whole() -> None:
    async def script(scene: Scene) -> None:
        speech = scene.random.randbytes(32_000)
        async with scene.client(chunk_ms=20) as session:
            await session.feed(speech, final=True)
            result = await session.next_result()
            assert isinstance(result, TranslationResult)
            assert result.tts_audio == speech
        [job] = scene.jobs
        assert (job.audio_format, job.sample_rate) == ("pcm16", 16_000)
        assert any(isinstance(event, AsrPartial) for event in scene.events)

    play(script)


def test_each_target_language_gets_its_own_result() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client(tgt_langs=["es", "fr"]) as session:
            await session.say("one")
            await session.utter(text="two", tgt_lang="fr")
            await session.close()
            ends = [(r.utterance_index, r.tgt_lang) async for r in session.results()]
        assert sorted(ends) == [(0, "es"), (0, "fr"), (1, "fr")]

    play(script)


def test_two_people_who_talk_each_hear_the_other_language() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client(lang_a="en", lang_b="es") as session:
            await session.utter(audio=bytes(3200))
            result = await session.next_result()
            assert isinstance(result, TranslationResult)

    play(script)


def test_a_pair_that_no_node_serves_is_missing_with_the_reasons() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client(tgt_lang="sv") as session:
            await session.say("hello")
            result = await session.next_result()
        assert isinstance(result, Missing)
        assert (result.reason, result.tgt_lang) == ("PAIR_UNSUPPORTED", "sv")
        assert result.error is not None
        assert result.error.code == "PAIR_UNSUPPORTED"

    play(script)


def test_a_quiet_client_stays_connected_by_its_heartbeats() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            first = scene.link
            await asyncio.sleep(600)
            assert scene.link is first
            await session.say("still here")
            assert isinstance(await session.next_result(), TranslationResult)

    play(script)


def test_results_are_acknowledged_soon_so_that_the_server_can_forget_them() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            await session.say("hello")
            await session.next_result()
            await asyncio.sleep(1.0)
            assert scene.sent[-1] == ClientHeartbeat(last_delivery_seq=1)

    play(script)


def test_a_client_that_is_told_to_pause_waits_and_nothing_is_refused() -> None:
    async def script(scene: Scene) -> None:
        scene.work_seconds = lambda _: 2.0
        async with scene.client(max_in_flight=1000) as session:
            for number in range(40):
                await session.say(f"word {number}")
            await session.close()
            results = [result async for result in session.results()]
        assert len(results) == 40
        actions = [event.action for event in scene.events if isinstance(event, Backpressure)]
        assert BackpressureAction.SLOW_DOWN in actions
        # What was under way when the server said so may be refused, and is then told as missing.
        refused = [result for result in results if isinstance(result, Missing)]
        assert all(result.reason == "RATE_LIMITED" for result in refused)

    play(script, limits__max_inflight_per_session=8, delay=lambda _: 0.01)


def test_a_client_keeps_its_own_bound_on_utterances_in_flight() -> None:
    async def script(scene: Scene) -> None:
        most = 0
        scene.work_seconds = lambda _: 2.0
        async with scene.client(max_in_flight=3) as session:
            for number in range(12):
                await session.say(f"word {number}")
                [served] = scene.plane.sessions
                most = max(most, served.in_flight)
            await session.close()
            results = [result async for result in session.results()]
        assert most <= 3
        assert all(isinstance(result, TranslationResult) for result in results)

    play(script)


def test_audio_waits_while_the_server_has_enough() -> None:
    async def script(scene: Scene) -> None:
        scene.work_seconds = lambda _: 5.0
        async with scene.client() as session:
            for _ in range(20):
                await session.feed(scene.random.randbytes(3200), final=True)
            await session.close()
            results = [result async for result in session.results()]
        assert [result.utterance_index for result in results] == list(range(20))
        assert all(isinstance(result, TranslationResult) for result in results)
        actions = [event.action for event in scene.events if isinstance(event, Backpressure)]
        assert BackpressureAction.PAUSE in actions
        assert actions[-1] is BackpressureAction.RESUME

    play(script, limits__max_inflight_per_session=4)


def test_a_long_recording_is_fed_without_being_too_fast_for_the_server() -> None:
    async def script(scene: Scene) -> None:
        recording = scene.random.randbytes(120 * 32_000)
        async with scene.client(keep_bytes=1_000_000) as session:
            await session.feed(recording, final=True)
            await session.close()
            heard = [r.tts_audio async for r in session.results() if not isinstance(r, Missing)]
        assert b"".join(audio or b"" for audio in heard) == recording
        assert not any(isinstance(event, SessionInterrupted) for event in scene.events)

    play(script)


def test_who_never_reads_results_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_MOST_UNREAD", 5)

    async def script(scene: Scene) -> None:
        async def never_stop(session: SessionClient) -> None:
            while True:
                await session.say("word after word")

        async with scene.client() as session:
            with pytest.raises(RateLimited, match="read results"):
                await never_stop(session)

    play(script)


def test_chunks_and_whole_utterances_do_not_mix() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            await session.say("hello")
            with pytest.raises(InvalidMessage, match="whole utterances"):
                await session.feed(b"\0\0")

    play(script)


def test_nothing_can_be_said_in_a_closed_session() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            await session.say("hello")
            await session.close()
            with pytest.raises(SessionClosed):
                await session.say("one more thing")

    play(script)


def test_an_utterance_that_makes_no_sense_is_refused_where_it_is_said() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            with pytest.raises(InvalidMessage, match="text"):
                await session.say("")
            with pytest.raises(InvalidMessage, match="Unicode"):
                await session.say("\ud800")
            await session.say("the session goes on")
            assert isinstance(await session.next_result(), TranslationResult)

    play(script)


class Rate(int):
    """A number of another library's class, as numpy has them."""


class Words(str):
    """A text of another library's class."""


def test_what_is_no_audio_is_refused_where_it_is_fed() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            for wrong in ("text", "", [0, 0], None):
                with pytest.raises(InvalidMessage, match=r"`audio` is .*; give bytes"):
                    await session.feed(wrong, final=True)  # type: ignore[arg-type]
            for audio in (bytearray(b"\1\2"), memoryview(array("h", [1]))):
                await session.feed(audio, final=True)
                audio[0] = 0  # the caller may go on with its buffer
                result = await session.next_result()
                assert isinstance(result, TranslationResult)
        assert [job.audio for job in scene.jobs] == [b"\1\2", b"\1\0"]

    play(script)


def test_an_utterance_of_another_class_is_sent_and_what_cannot_be_is_named() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            await session.say(Words("hello"))
            result = await session.next_result()
            assert isinstance(result, TranslationResult)
            assert result.text_translated == "HELLO"
            with pytest.raises(InvalidMessage, match=r"^`text` cannot be sent: Got `object`"):
                await session.say(object())  # type: ignore[arg-type]
            misspelt: Any = {"use_ttss": True}
            with pytest.raises(InvalidMessage, match="did you mean use_tts"):
                await session.utter(text="hello", pipeline=misspelt)

    play(script)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "src_lang"),
        ({"src_lang": "en"}, "tgt_lang"),
        ({"src_lang": "e", "tgt_lang": "es"}, "src_lang"),
        ({"src_lang": "en", "tgt_lang": "es", "audio_format": "mp3"}, "audio_format"),
        ({"lang_a": "en"}, "lang_b"),
        (
            {"src_lang": "fr", "lang_a": "en", "lang_b": "zh"},
            "^`src_lang` is `fr`, and the session goes between `en` and `zh`",
        ),
        (
            {"src_lang": "en", "tgt_lang": "es", "pipeline": {"use_ttss": True}},
            "^`pipeline` has no 'use_ttss'; did you mean use_tts",
        ),
        ({"src_lang": "en", "tgt_lang": "es", "trace_id": object()}, "^`trace_id` cannot be sent"),
        ({"src_lang": "en", "tgt_lang": "es", "sample_rate": Rate(5)}, "^`sample_rate` does not"),
        ({"src_lang": "english", "tgt_lang": "es"}, "^`src_lang` holds 'english', which is no"),
        ({"src_lang": "en", "tgt_lang": "es_MX"}, "^`tgt_lang` holds 'es_MX'"),
        ({"src_lang": "en", "tgt_lang": "auto"}, "^`tgt_lang` is `auto`"),
        ({"src_lang": "en", "tgt_langs": "es"}, r'give a list, as in tgt_langs=\["es"\]'),
        ({"src_lang": "en", "tgt_langs": ["es", "Spanish"]}, "^`tgt_langs` holds 'Spanish'"),
        ({"src_lang": "en", "tgt_lang": "es", "sample_rate": "16k"}, "^`sample_rate` does not fit"),
        ({"src_lang": "en", "tgt_lang": "es", "max_in_flight": 0}, "^`max_in_flight` is 0"),
        ({"src_lang": "en", "tgt_lang": "es", "if_gone": "wait"}, "^`if_gone` is 'wait'"),
        ({"src_lang": "en", "tgt_lang": "es", "on_event": 1}, "^`on_event` is 1"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused_before_it_is_opened(
    options: SessionOptions, says: str
) -> None:
    with pytest.raises(InvalidMessage, match=says):
        SessionClient("ws://127.0.0.1:1", **options)


@pytest.mark.parametrize(
    ("option", "hint"),
    [("target_lang", "did you mean tgt_lang"), ("xyz", "there are audio_format")],
)
def test_an_unknown_option_of_a_session_is_refused(option: str, hint: str) -> None:
    options: Any = {"src_lang": "en", "tgt_lang": "es", option: "es"}
    with pytest.raises(TypeError, match=f"no option '{option}'; {hint}"):
        SessionClient("ws://127.0.0.1:1", **options)
    with pytest.raises(TypeError, match=f"no option '{option}'"):
        talk("ws://127.0.0.1:1", **options)


def test_a_session_that_is_used_without_a_with_block_says_so_and_keeps_nothing_open() -> None:
    files = len(os.listdir("/proc/self/fd"))
    session = talk("ws://127.0.0.1:1", src_lang="en", tgt_lang="es")
    for use in (session.next_result, session.close, lambda: session.say("hello")):
        with pytest.raises(SessionClosed, match=r"use it inside `with talk\(\.\.\.\) as session"):
            use()
    assert len(os.listdir("/proc/self/fd")) == files


def test_the_language_of_one_utterance_is_checked_too() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            with pytest.raises(InvalidMessage, match="`tgt_lang` holds 'spanish'"):
                await session.utter(text="hello", tgt_lang="spanish")

    play(script)
