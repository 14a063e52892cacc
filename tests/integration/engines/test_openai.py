"""The engine `openai` against a compatible server: what it asks, and what it makes of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.sdk.sockets import node_command, program, scheduling
from tests.servers.openai_server import OpenAiServer
from tests.unit.audio.sounds import tone

from dragoman.audio import read_wav, wav_bytes
from dragoman.engines import Opening, Stage, assemble, engine_kind
from dragoman.errors import SettingsError
from dragoman.live.protocol import (
    AudioFormat,
    GlossaryTerm,
    JobResult,
    Mode,
    ModelNotAvailable,
    NodeHeartbeat,
    PastUtterance,
    Pipeline,
    ServiceType,
)
from dragoman.sdk import Answer, Job, JobFailed, ModelMissing, Usage

SOUND = tone(440, 0.5)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAiServer]:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with OpenAiServer() as running:
        yield running


def stage_of(
    server: OpenAiServer, kind: str, model: str, *, slots: int = 1, **options: Any
) -> Stage:
    made = engine_kind("openai").stages[ServiceType(kind)]
    given = made.options(url=server.url, model=model, **options)
    return made.open(given, Opening(slots=slots))


def done(server: OpenAiServer, kind: str, model: str, job: Job, **options: Any) -> Answer:
    async def scenario() -> Answer:
        stage = stage_of(server, kind, model, **options)
        try:
            await stage.warm_up()
            return await stage.work(job)
        finally:
            await stage.close()

    return asyncio.run(scenario())


def text_job(text: str = "good morning", **fields: Any) -> Job:
    return Job(src_lang="en-GB", tgt_lang="es", text=text, **fields)


def speech_job(src_lang: str = "en-GB", **fields: Any) -> Job:
    return Job(
        src_lang=src_lang,
        tgt_lang="es",
        audio=wav_bytes(SOUND),
        audio_format=AudioFormat.WAV,
        **fields,
    )


# --- the tenant's words, and what was said before -------------------------------------------------

WORDS = (GlossaryTerm("gate", "puerta"), GlossaryTerm("Dragoman"), GlossaryTerm("fare", "tarifa"))
BEFORE = (
    PastUtterance("Where is it?", "¿Dónde está?", "en-GB", "es"),
    PastUtterance("¿Qué?", "What?", "es", "en-GB"),
)


def test_words_to_hear_are_the_prompt_of_a_transcription(server: OpenAiServer) -> None:
    done(server, "asr", "stage", speech_job(glossary=WORDS))
    [asked] = server.asked
    assert asked.prompt == "gate, Dragoman, fare"
    done(server, "asr", "stage", speech_job(glossary=WORDS, context=BEFORE))
    assert server.asked[-1].prompt == "Where is it?\ngate, Dragoman, fare"
    done(server, "asr", "stage", speech_job(context=BEFORE))
    assert server.asked[-1].prompt == "Where is it?"
    done(server, "asr", "stage", speech_job(glossary=WORDS), extra={"prompt": "mine"})
    assert server.asked[-1].prompt == "mine"


def test_a_translation_is_told_the_terms_of_its_text_and_what_was_said_before(
    server: OpenAiServer,
) -> None:
    done(server, "nmt", "stage", text_job("At the Gate", glossary=WORDS, context=BEFORE))
    system, *earlier, last = server.asked[-1].body["messages"]
    assert "- gate -> puerta" in system["content"]
    assert "fare" not in system["content"]
    assert [(one["role"], one["content"]) for one in earlier] == [
        ("user", "Where is it?"),
        ("assistant", "¿Dónde está?"),
    ], "what was said in the other direction says nothing of this one"
    assert last == {"role": "user", "content": "At the Gate"}


def test_a_repair_is_told_all_words_and_what_was_said_before(server: OpenAiServer) -> None:
    done(server, "semantic", "stage", text_job("at the gait", glossary=WORDS, context=BEFORE))
    system, _ = server.asked[-1].body["messages"]
    assert "gate, Dragoman, fare" in system["content"]
    assert "- Where is it?" in system["content"]


# --- asking ---------------------------------------------------------------------------------------


def test_a_recording_is_sent_as_wav_with_its_language_and_its_padding(server: OpenAiServer) -> None:
    answer = done(server, "asr", "stage", speech_job(padding_ms=250), extra={"temperature": 0.2})
    assert answer == Answer(text_asr="12000 samples at 16000", usage=Usage(7, 3))
    [asked] = server.asked
    assert asked.path == "/v1/audio/transcriptions"
    assert asked.body["language"] == "en"
    assert asked.body["temperature"] == "0.2"
    assert "authorization" not in asked.headers


def test_where_the_language_is_open_the_server_is_asked_which_it_was(server: OpenAiServer) -> None:
    for job in (
        speech_job("auto", auto_langs=("en", "es")),
        speech_job("en", mode=Mode.TWO_WAY_AUTO, lang_a="en", lang_b="es"),
    ):
        answer = done(server, "asr", "stage", job)
        assert answer.src_lang_detected == "es"
        assert "language" not in server.asked[-1].body


@pytest.mark.parametrize("stream", [False, True])
def test_text_is_repaired_and_translated_by_a_chat_model(
    server: OpenAiServer, stream: bool
) -> None:
    repaired = done(server, "semantic", "stage", text_job(), stream=stream)
    assert repaired == Answer(text_asr="GOOD MORNING", usage=Usage(10, 5))
    translated = done(server, "nmt", "stage", text_job(), stream=stream)
    assert translated == Answer(text_translated="GOOD MORNING", usage=Usage(10, 5))
    system, user = server.asked[-1].body["messages"]
    assert "from the language en-GB into the language es" in system["content"]
    assert user == {"role": "user", "content": "good morning"}
    assert server.asked[-1].body["temperature"] == 0.0


def test_what_a_chat_model_is_told_first_may_be_chosen(server: OpenAiServer) -> None:
    text = text_job("{src_lang} is not filled in here")
    done(server, "nmt", "stage", text, system="{src_lang}>{tgt_lang} {x}", temperature=None)
    asked = server.asked[-1].body
    assert asked["messages"][0]["content"] == "en-GB>es {x}"
    assert asked["messages"][1]["content"] == text.text
    assert "temperature" not in asked


def test_text_is_spoken_with_the_voice_of_its_language(server: OpenAiServer) -> None:
    answer = done(server, "tts", "stage", text_job("hola"), voices={"es": "maria"})
    assert answer.tts_format == "wav"
    content = answer.tts_audio or b""
    assert int.from_bytes(content[40:44], "little") == len(content) - 44
    assert read_wav(content).seconds == pytest.approx(0.04)
    assert server.asked[-1].body["voice"] == "maria"
    as_mp3 = done(server, "tts", "echo", text_job("hola"), format="mp3")
    assert (as_mp3.tts_audio, as_mp3.tts_format) == (b"RIFFhola", "mp3")
    assert server.asked[-1].body["voice"] == "alloy"


# --- keys -----------------------------------------------------------------------------------------


def test_the_key_comes_from_the_variable_that_is_named(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "the-right-key\n")
    assert done(server, "nmt", "keyed", text_job(), key_env="MY_KEY").text_translated
    monkeypatch.setenv("OPENAI_API_KEY", "the-right-key")
    assert done(server, "nmt", "keyed", text_job()).text_translated


def test_a_wrong_key_is_a_model_that_is_not_available_and_is_never_told(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    with pytest.raises(ModelMissing, match="answered 401: Incorrect API key") as caught:
        done(server, "nmt", "keyed", text_job(), key_env="MY_KEY")
    assert "sk-very-secret" not in str(caught.value)
    assert caught.value.service_id == "keyed-nmt"


def test_a_model_that_the_server_does_not_have_is_not_available(server: OpenAiServer) -> None:
    with pytest.raises(ModelMissing, match="answered 404: The model `nothing` does not exist"):
        done(server, "nmt", "nothing", text_job())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"key_env": "NO_SUCH_KEY"}, "names the variable NO_SUCH_KEY, which is not set"),
        ({"key_env": "sk-abc"}, "not the name of an environment variable"),
        ({"key_env": "BAD_KEY"}, "holds no key"),
        ({"url": "ftp://x"}, "`stages.nmt.url` does not fit"),
        ({"headers": {"a b": "c"}}, "`stages.nmt.headers.a b` does not fit"),
        ({"extra": {"messages": []}}, "not for users"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_the_node_starts(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], says: str
) -> None:
    monkeypatch.setenv("BAD_KEY", "two words")
    table = {"model": "stage", "languages": ["en"], **options}
    with pytest.raises(SettingsError, match=says):
        assemble("openai", {"nmt": table}, {})


def test_a_model_is_needed_and_the_address_may_come_from_the_environment(
    server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=r"does nothing without options; .*--set asr.model="):
        assemble("openai", {}, {})
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    node = assemble("openai", {"nmt": {"model": "stage"}}, {ServiceType.NMT: ["en", "es"]})
    assert node.services is not None
    translate: Any = node.services["nmt"]

    async def scenario() -> Answer:
        async with node.lifespan():
            answer: Answer = await translate(text_job())
            return answer

    assert asyncio.run(scenario()).text_translated == "GOOD MORNING"


# --- servers that fail ----------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_when_it_says_if_the_job_can_wait(
    server: OpenAiServer,
) -> None:
    assert done(server, "nmt", "busy-once", text_job()).text_translated == "good morning"
    assert server.counts["busy-once"] == 2
    with pytest.raises(JobFailed, match="answered 429") as caught:
        done(server, "nmt", "busy", text_job(deadline_ms=5_000))
    assert server.counts["busy"] == 1
    assert caught.value.error.code == "RATE_LIMITED"
    assert caught.value.error.retryable
    assert caught.value.error.details == {"retry_after_ms": 7_000}


@pytest.mark.parametrize(
    ("kind", "model", "options", "says"),
    [
        ("nmt", "fails-twice", {}, "answered 500: The server had an error"),
        ("nmt", "cut", {}, "No answer"),
        ("nmt", "malformed", {}, "not JSON"),
        ("nmt", "no-choices", {}, "holds no text"),
        ("nmt", "error-with-200", {}, "out of memory"),
        ("nmt", "short", {}, "ran out of tokens"),
        ("nmt", "empty-judge", {}, "answered with no text"),
        ("nmt", "silent-judge", {}, "holds no text"),
        ("nmt", "broken-stream", {"stream": True}, "before the answer was complete"),
        ("nmt", "failing-stream", {"stream": True}, "the engine died"),
        ("nmt", "malformed-stream", {"stream": True}, "not JSON"),
        ("asr", "error-with-200", {}, "out of memory"),
        ("asr", "malformed", {}, "not JSON"),
        ("asr", "cut", {}, "No answer"),
        ("tts", "echo", {}, "answered with no speech"),
        ("tts", "error-with-200", {}, "JSON instead of audio"),
        ("nmt", "hang", {"timeout_seconds": 0.3}, "within 0.3 s"),
        ("nmt", "late-stream", {"stream": True, "timeout_seconds": 0.3}, "within 0.3 s"),
    ],
)
def test_a_server_that_fails_fails_the_job_and_another_node_is_asked(
    server: OpenAiServer, kind: str, model: str, options: dict[str, Any], says: str
) -> None:
    job = speech_job() if kind == "asr" else text_job()
    with pytest.raises(JobFailed, match=says) as caught:
        done(server, kind, model, job, **options)
    assert caught.value.error.code == "ENGINE_FAILED"
    assert caught.value.error.retryable


def test_a_job_gets_no_more_time_than_it_has(server: OpenAiServer) -> None:
    with pytest.raises(JobFailed, match=r"did not answer within 0\.3 seconds"):
        done(server, "nmt", "hang", text_job(deadline_ms=300))


def test_a_server_that_is_not_there_fails_the_job() -> None:
    with OpenAiServer() as gone:
        pass
    with pytest.raises(JobFailed, match="No answer"):
        done(gone, "nmt", "stage", text_job())


def test_no_more_requests_than_allowed_are_under_way_at_once(server: OpenAiServer) -> None:
    async def scenario() -> None:
        stage = stage_of(server, "nmt", "hang", slots=8, concurrency=2)
        asking = [asyncio.create_task(stage.work(text_job())) for _ in range(5)]
        await asyncio.to_thread(server.hanging.wait)
        while server.counts["hang"] < 2:  # noqa: ASYNC110 - a thread counts
            await asyncio.sleep(0.01)
        done, _ = await asyncio.wait(asking, timeout=0.2)
        assert not done
        assert server.counts["hang"] == 2
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await stage.close()

    asyncio.run(scenario())


# --- a node ---------------------------------------------------------------------------------------


def test_a_node_of_five_lines_hears_translates_and_speaks(
    server: OpenAiServer, tmp_path: Any
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(
        f'engine = "openai"\nengines.openai = {{url = "{server.url}", languages = ["en", "es"]}}\n'
        'stages.asr.model = "stage"\nstages.nmt.model = "keyed"\nstages.tts.model = "stage"\n'
    )
    everything = Pipeline(use_asr=True, use_nmt=True, use_tts=True)

    async def scenario() -> None:
        async with scheduling() as (scheduler, url):
            command = node_command("--url", url, "--config", str(file))
            async with program(*command, OPENAI_API_KEY="the-right-key"):
                await scheduler.hears(NodeHeartbeat)
                scheduler.assign(
                    "a", audio=SOUND.samples, audio_format=AudioFormat.PCM16, pipeline=everything
                )
                [result] = await scheduler.hears(JobResult)
            assert result.text_asr == "8000 samples at 16000"
            assert result.text_translated == "8000 SAMPLES AT 16000"
            assert read_wav(result.tts_audio or b"").seconds > 0.1
            assert result.usage == Usage(17, 8, 0.5, 21)
            async with program(*command, OPENAI_API_KEY="another"):
                await scheduler.hears(NodeHeartbeat, 2)
                scheduler.assign("b", text="hi", pipeline=Pipeline(use_nmt=True))
                [missing] = await scheduler.hears(ModelNotAvailable)
                assert missing.service_id == "keyed-nmt"
                assert "another" not in missing.reason

    asyncio.run(scenario())
