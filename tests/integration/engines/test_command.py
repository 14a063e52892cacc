"""Programs as stages: those that work, and those that hang, die and print garbage."""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.sdk.sockets import node_command, program, scheduling
from tests.unit.audio.sounds import tone

from dragoman.audio import Pcm16, read_wav, wav_bytes
from dragoman.engines import assemble
from dragoman.engines.command.stage import CommandOptions, CommandStage
from dragoman.errors import SettingsError
from dragoman.live.protocol import (
    AudioFormat,
    GlossaryTerm,
    JobResult,
    ModelNotAvailable,
    NodeHeartbeat,
    PastUtterance,
    Pipeline,
    ServiceType,
)
from dragoman.sdk import Answer, Job, JobFailed, ModelMissing

SOUND = tone(440, 0.5)

# Counts its input's samples, from standard input or from a file.
HEAR = "import sys, wave; w = wave.open(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.buffer);"
HEAR += "print(w.getnframes(), 'samples at', w.getframerate())"
SPEAK = (
    "import sys, wave; w = wave.open(sys.argv[1], 'wb'); w.setparams((1, 2, 8000, 0, 'NONE', ''));"
)
SPEAK += "w.writeframes(b'\\x10\\x20' * 800 * len(sys.stdin.read()))"


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


def done(kind: str, command: Sequence[str], job: Job, **options: Any) -> Answer:
    stage = CommandStage(ServiceType(kind), CommandOptions(command=list(command), **options))

    async def scenario() -> Answer:
        await stage.warm_up()
        return await stage.work(job)

    return asyncio.run(scenario())


def text_job(text: str = "good morning", **fields: Any) -> Job:
    return Job(src_lang="en", tgt_lang="es", text=text, **fields)


def speech_job(**fields: Any) -> Job:
    return Job(
        src_lang="en", tgt_lang="es", audio=wav_bytes(SOUND), audio_format=AudioFormat.WAV, **fields
    )


@pytest.mark.parametrize("arguments", [[], ["{input}"]], ids=["standard input", "a file"])
def test_a_recogniser_gets_a_recording_as_it_likes(arguments: list[str]) -> None:
    answer = done("asr", python(HEAR, *arguments), speech_job())
    assert answer.text_asr == "8000 samples at 16000"
    padded = done("asr", python(HEAR, *arguments), speech_job(padding_ms=250))
    assert padded.text_asr == "12000 samples at 16000"


def test_a_translator_is_told_the_languages_and_no_shell_reads_the_text() -> None:
    script = "import sys; print(sys.argv[1:], sys.stdin.read())"
    text = "$(touch x) `id` ; {input} 漢字"
    answer = done("nmt", python(script, "{src_lang}-{tgt_lang}", "{lang}"), text_job(text))
    assert answer.text_translated == f"['en-es', 'en'] {text}"
    repaired = done("semantic", ["tr", "a-z", "A-Z"], text_job())
    assert repaired == Answer(text_asr="GOOD MORNING")


def test_a_voice_writes_a_file_or_bare_samples() -> None:
    answer = done("tts", python(SPEAK, "{output}"), text_job("abc"))
    assert answer.tts_format == "wav"
    assert read_wav(answer.tts_audio or b"") == Pcm16(b"\x10\x20" * 2400, 8_000)
    bare = done("tts", ["printf", "abcd"], text_job(), raw=True, sample_rate=22_050)
    assert read_wav(bare.tts_audio or b"") == Pcm16(b"abcd", 22_050)


def test_a_real_voice_speaks(tmp_path: Path) -> None:
    command = ["espeak-ng", "-v", "{lang}", "-w", "{output}", "-f", "{input}"]
    answer = done("tts", command, text_job("buenos días"))
    assert read_wav(answer.tts_audio or b"").seconds > 0.3


@pytest.mark.parametrize(
    ("kind", "command", "says"),
    [
        ("nmt", ["sleep", "1000"], "sleep did not end within 0.3 seconds"),
        ("nmt", ["sh", "-c", "sleep 1000 & exit 0"], "did not end within 0.3 seconds"),
        ("nmt", ["false"], "false ended with 1"),
        ("nmt", ["sh", "-c", "kill -9 $$"], "was ended by SIGKILL"),
        ("nmt", ["printf", r"\377\376"], "not UTF-8"),
        ("nmt", ["printf", r"a\001b"], "not text"),
        ("tts", ["true"], "wrote no speech: The audio is not a WAV file"),
        ("tts", ["echo", "no audio"], "wrote no speech"),
        ("tts", ["true", "{output}"], "ended well but wrote no output file"),
    ],
)
def test_a_program_that_hangs_dies_or_prints_garbage_fails_its_job_for_this_node(
    kind: str, command: list[str], says: str
) -> None:
    with pytest.raises(JobFailed, match=says) as caught:
        done(kind, command, text_job(), timeout_seconds=0.3)
    assert caught.value.error.code == "ENGINE_FAILED"
    assert caught.value.error.retryable


def test_a_job_gets_no_more_time_than_it_has() -> None:
    with pytest.raises(JobFailed, match=r"within 0\.2 seconds"):
        done("nmt", ["sleep", "1000"], text_job(deadline_ms=200))


def test_a_program_that_is_not_there_is_refused_before_the_node_registers() -> None:
    with pytest.raises(ModelMissing, match="there is no program no-such-program"):
        done("nmt", ["no-such-program"], text_job())


def test_a_placeholder_that_there_is_not_is_refused() -> None:
    table = {"nmt": {"command": ["cat", "{file}"], "languages": ["en"]}}
    with pytest.raises(SettingsError, match=r"holds \{file\}, which is no placeholder"):
        assemble("command", table, {})


def test_a_node_of_programs_does_jobs_and_survives_bad_ones(tmp_path: Path) -> None:
    script = tmp_path / "translate.sh"
    script.write_text(
        "#!/bin/sh\nread text\n"
        "case $text in die) kill -9 $$;; hang) sleep 1000;; esac\necho ¡$text!\n"
    )
    script.chmod(0o755)
    file = tmp_path / "node.toml"
    file.write_text(
        'engine = "command"\nslots = 2\n'
        f'[stages.nmt]\ncommand = ["{script}"]\nlanguages = ["en", "es"]\ntimeout_seconds = 1.0\n'
    )

    async def scenario() -> None:
        async with (
            scheduling() as (scheduler, url),
            program(*node_command("--url", url, "--config", str(file))),
        ):
            await scheduler.hears(NodeHeartbeat)
            for number, text in enumerate(["die", "hang", "hola"]):
                scheduler.assign(text, text=text, pipeline=Pipeline(use_nmt=True))
                await scheduler.hears(JobResult, number + 1)
            died, hung, good = scheduler.all(JobResult)
            assert died.error is not None
            assert "was ended by SIGKILL" in died.error.message
            assert hung.error is not None
            assert "did not end within 1.0 seconds" in hung.error.message
            assert good.text_translated == "¡hola!"
            script.unlink()
            scheduler.assign("gone", text="x", pipeline=Pipeline(use_nmt=True))
            [missing] = await scheduler.hears(ModelNotAvailable)
            assert missing.service_id == "translate.sh-nmt"

    asyncio.run(scenario())


def test_a_program_may_read_what_was_said_before_and_the_words_of_the_glossary() -> None:
    script = "import json, sys; print(json.load(open(sys.argv[1], encoding='utf-8')))"
    before = PastUtterance("hello there", "hola", "en", "es")
    job = text_job(context=(before,), glossary=(GlossaryTerm("gate", "puerta"),))
    answer = done("nmt", python(script, "{hints}"), job)
    assert answer.text_translated is not None
    assert ast.literal_eval(answer.text_translated) == {
        "context": [
            {
                "text_asr": "hello there",
                "text_translated": "hola",
                "src_lang": "en",
                "tgt_lang": "es",
            }
        ],
        "glossary": [{"term": "gate", "translation": "puerta"}],
    }
    alone = done("asr", python(script, "{hints}"), speech_job())
    assert alone.text_asr == "{'context': [], 'glossary': []}"
