"""pocketsphinx, Apertium and espeak-ng behind a node."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from tests.integration.engines.speech import (
    heard_by_itself,
    is_silent,
    spoken,
    translated_by_itself,
)
from tests.integration.sdk.sockets import node_command, program, scheduling

from dragoman.audio import read_wav, wav_bytes
from dragoman.engines import Opening, assemble
from dragoman.engines.local.languages import tag_of
from dragoman.engines.local.recognising import PocketsphinxOptions, PocketsphinxStage
from dragoman.engines.local.speaking import EspeakOptions, EspeakStage, voices_in
from dragoman.engines.local.translating import ApertiumOptions, ApertiumStage, modes_in
from dragoman.live.protocol import (
    AudioFormat,
    GlossaryTerm,
    JobPartial,
    JobResult,
    NodeHeartbeat,
    NodeRegister,
    Pipeline,
    ServiceType,
)
from dragoman.sdk import Job, JobFailed, ModelMissing

ALL = Pipeline(use_asr=True, use_nmt=True, use_tts=True)
HELLO = "good morning my friend"


def test_a_local_node_hears_translates_and_speaks() -> None:
    sound = spoken("this is a good day", 22_050)

    async def scenario() -> None:
        async with (
            scheduling() as (scheduler, url),
            program(*node_command("--url", url, "--engine", "local", "--slots", "2")) as process,
        ):
            await scheduler.hears(NodeHeartbeat)
            [register] = scheduler.all(NodeRegister)
            assert [s.service_id for s in register.services] == [
                "pocketsphinx",
                "apertium",
                "espeak-ng",
            ]
            assert all(service.version for service in register.services)
            assert register.languages.asr_langs == ("en",)
            assert {"en", "es"} <= set(register.languages.nmt_langs)
            assert {"en", "es"} <= set(register.languages.tts_langs)
            scheduler.assign(
                "a", text="", audio=wav_bytes(sound), audio_format=AudioFormat.WAV, pipeline=ALL
            )
            [result] = await scheduler.hears(JobResult)
            process.send_signal(signal.SIGTERM)
            _, err = await process.communicate()
            assert (process.returncode, err) == (0, b"")
        assert result.success, result.error
        assert result.text_asr == heard_by_itself(spoken("this is a good day"))
        assert result.text_asr
        assert result.text_translated == translated_by_itself(result.text_asr)
        assert result.text_translated != result.text_asr
        assert result.tts_format == "wav"
        speech = read_wav(result.tts_audio or b"")
        assert not is_silent(speech)
        assert speech.seconds > 0.5
        timings = result.timings
        assert timings is not None
        assert timings.asr_ms
        assert timings.nmt_ms
        assert timings.tts_ms
        [partial] = scheduler.all(JobPartial)
        assert (partial.text, partial.is_final) == (result.text_asr, True)

    asyncio.run(scenario())


# --- recognition ----------------------------------------------------------------------------------


def recognising(
    script: Callable[[PocketsphinxStage], Awaitable[None]], *, slots: int = 1, warm: bool = True
) -> None:
    async def scenario() -> None:
        stage = PocketsphinxStage(PocketsphinxOptions(), Opening(slots=slots))
        try:
            if warm:
                await stage.warm_up()
            await script(stage)
        finally:
            await stage.close()

    asyncio.run(scenario())


def speech_job(text: str = HELLO, **fields: object) -> Job:
    audio = spoken(text).samples
    return Job(src_lang="en", tgt_lang="es", audio=audio, **fields)  # type: ignore[arg-type]


def test_the_same_audio_gives_the_same_text_whatever_was_heard_before() -> None:
    async def script(stage: PocketsphinxStage) -> None:
        for text in (HELLO, "the house is very big", "we have a lot of time", HELLO):
            answer = await stage.work(speech_job(text, padding_ms=280))
            assert answer.text_asr == heard_by_itself(spoken(text).padded(280))

    recognising(script)


def test_silence_and_nothing_are_heard_as_nothing_said() -> None:
    async def script(stage: PocketsphinxStage) -> None:
        empty = Job(src_lang="en", tgt_lang="es", audio=b"")
        assert (await stage.work(empty)).text_asr == ""
        padding = Job(src_lang="en", tgt_lang="es", audio=b"", padding_ms=300)
        assert (await stage.work(padding)).text_asr == ""
        for seconds in (1, 2, 10):
            silence = Job(src_lang="en", tgt_lang="es", audio=bytes(32_000 * seconds))
            assert (await stage.work(silence)).text_asr == "", "a word is heard in silence"
        faint = Job(src_lang="en", tgt_lang="es", audio=b"\x01\0\xff\xff" * 16_000)
        assert (await stage.work(faint)).text_asr == ""

    recognising(script)


def _only_process(stage: PocketsphinxStage) -> int:
    process = stage._pool._idle.get_nowait()
    assert process is not None
    stage._pool._idle.put_nowait(process)
    return process.pid


def test_a_recogniser_that_dies_costs_one_job_at_most_and_is_started_again() -> None:
    async def script(stage: PocketsphinxStage) -> None:
        await stage.work(speech_job())
        os.kill(_only_process(stage), signal.SIGKILL)
        with suppress(JobFailed):  # unless its end was noticed before
            await stage.work(speech_job())
        assert (await stage.work(speech_job())).text_asr

    recognising(script)


def test_a_job_that_is_cancelled_or_out_of_time_frees_its_process_at_once() -> None:
    async def script(stage: PocketsphinxStage) -> None:
        before = _only_process(stage)
        long = speech_job("one two three four five six seven eight nine ten eleven twelve")
        with pytest.raises(JobFailed, match=r"did not answer within 0\.0 seconds"):
            await stage.work(speech_job(deadline_ms=1))
        working = asyncio.create_task(stage.work(long))
        await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert (await stage.work(speech_job())).text_asr
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)

    recognising(script)


def test_jobs_wait_for_a_process_when_there_are_fewer_than_jobs() -> None:
    async def script(stage: PocketsphinxStage) -> None:
        answers = await asyncio.gather(*(stage.work(speech_job("yes")) for _ in range(3)))
        assert len({answer.text_asr for answer in answers}) == 1

    recognising(script, slots=2, warm=False)


# --- translation ----------------------------------------------------------------------------------


def translated(text: str, src_lang: str = "en", tgt_lang: str = "es") -> str | None:
    stage = ApertiumStage(ApertiumOptions(), Opening())
    job = Job(src_lang=src_lang, tgt_lang=tgt_lang, text=text)
    return asyncio.run(stage.work(job)).text_translated


@pytest.mark.parametrize(
    "text",
    [
        HELLO,
        "Where is the train station?",
        "a\nb",
        "-u ^x$ [y] {z} @ \\ */",
        "¿qué? 漢字 🙂",
        "x" * 9000,
    ],
)
def test_a_translation_is_what_apertium_says_whatever_the_text(text: str) -> None:
    assert translated(text) == translated_by_itself(text)


def test_terms_of_the_glossary_are_translated_as_they_must_be() -> None:
    words = (
        GlossaryTerm("boarding gate", "puerta de embarque"),
        GlossaryTerm("gate", "portón"),
        GlossaryTerm("red", "colorado"),
        GlossaryTerm("Madrid"),
    )

    async def translated(text: str) -> str:
        stage = ApertiumStage(ApertiumOptions(), Opening(slots=1))
        job = Job(src_lang="en", tgt_lang="es", text=text, glossary=words)
        return (await stage.work(job)).text_translated or ""

    boarding = asyncio.run(translated("The boarding gate in Madrid is red."))
    assert "puerta de embarque en Madrid" in boarding
    assert "colorado" in boarding
    assert "portón" in asyncio.run(translated("I see the Gate."))
    assert asyncio.run(translated("A cat.")) == translated_by_itself("A cat.")


def test_regions_are_left_aside_and_directions_that_are_not_installed_are_refused() -> None:
    assert translated(HELLO, "en-GB", "es-MX") == translated_by_itself(HELLO)
    assert translated("buenos días", "es", "en") == translated_by_itself("buenos días", "spa-eng")
    with pytest.raises(JobFailed, match="does not translate from en into xh") as caught:
        translated(HELLO, "en", "xh")
    assert (caught.value.error.code, caught.value.error.retryable) == ("PAIR_UNSUPPORTED", True)


def test_directions_are_found_in_what_apertium_lists() -> None:
    names = ["spa-eng_US", "eng-spa", "spa-eng", "en-gl", "kaz-tat_x_y", "eng-tagger-x", "odd", "-"]
    assert modes_in(names) == {
        ("en", "es"): "eng-spa",
        ("es", "en"): "spa-eng",
        ("en", "gl"): "en-gl",
        ("kk", "tt"): "kaz-tat_x_y",
    }
    assert tag_of("szl") == "szl"


def test_a_translator_that_is_gone_is_a_model_that_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = ApertiumStage(ApertiumOptions(), Opening())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ModelMissing, match="apertium cannot be started") as caught:
        asyncio.run(stage.work(Job(src_lang="en", tgt_lang="es", text=HELLO)))
    assert caught.value.service_id == "apertium"


# --- speech ---------------------------------------------------------------------------------------


def speaking(text: str, tgt_lang: str, **options: object) -> bytes:
    stage = EspeakStage(EspeakOptions(**options), Opening())  # type: ignore[arg-type]
    answer = asyncio.run(stage.work(Job(src_lang="en", tgt_lang=tgt_lang, text=text)))
    assert answer.tts_audio is not None
    return answer.tts_audio


@pytest.mark.parametrize("tgt_lang", ["es", "es-MX", "en", "fr", "pt-BR", "zh", "cmn"])
def test_speech_is_a_wav_of_known_length_that_is_not_silent(tgt_lang: str) -> None:
    content = speaking("buenos días", tgt_lang)
    assert int.from_bytes(content[40:44], "little") == len(content) - 44
    assert not is_silent(read_wav(content))


def test_a_voice_may_be_chosen_for_a_language_and_the_speed_too() -> None:
    usual = speaking(HELLO, "en")
    assert speaking(HELLO, "en", voices={"en": "en-us"}) != usual
    slow = read_wav(speaking(HELLO, "en", words_per_minute=90))
    assert slow.seconds > read_wav(usual).seconds


def test_a_voice_that_is_not_there_is_a_model_that_is_not_available() -> None:
    with pytest.raises(ModelMissing, match="no voice for xx"):
        speaking(HELLO, "xx")
    with pytest.raises(JobFailed, match="voice does not exist"):
        speaking(HELLO, "en", voices={"en": "xx-none"})


def test_voices_are_found_in_what_espeak_lists() -> None:
    listing = (
        "Pty Language       Age/Gender VoiceName          File                 Other Languages\n"
        " 5  cmn             --/M      Chinese            sit/cmn              (zh-cmn 5)(zh 5)\n"
        " 2  en-gb           --/M      English            gmw/en               (en 2)\n"
        " 5  fr-fr           --/M      French             roa/fr               (fr 5)\n"
        " 5  3x              --/M      Odd                odd\n"
    )
    assert voices_in(listing) == {
        "cmn": "cmn",
        "zh-cmn": "cmn",
        "zh": "cmn",
        "en-gb": "en-gb",
        "en": "en-gb",
        "fr-fr": "fr-fr",
        "fr": "fr-fr",
    }


def test_the_local_engine_offers_what_all_its_stages_can_do() -> None:
    node = assemble("local", {}, {})
    assert node.languages[ServiceType.ASR] == ["en"]
    assert node.languages[ServiceType.NMT][0] == "en"
    assert "es" in node.languages[ServiceType.NMT]
    assert "af" not in node.languages[ServiceType.TTS]
    assert node.audio is not None
