"""``dragoman say`` as a user types it, against a real server with a simulated fleet."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import wave
from pathlib import Path

import pytest
from tests.integration.engines.speech import spoken
from tests.integration.serve.server_process import DRAGOMAN, ServerProcess, environment, run

from dragoman.audio import Pcm16, wav_bytes
from dragoman.cli import main


def recording(path: Path, seconds: float = 1.0) -> Path:
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        sound.writeframes(bytes(int(seconds * 32_000)))
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_text_comes_back_translated_with_its_times(demo: ServerProcess) -> None:
    url = demo.url.replace("http", "ws", 1)
    code, out, err = run(
        "say", "--text", "good morning", "--from", "en", "--to", "es", "--url", url
    )
    assert (code, err) == (0, "")
    assert "[es, simulated] good morning" in out
    assert "queued" in out
    assert "dispatch" in out
    assert "node" in out
    assert "engine      simulated" in out


def test_a_text_is_spoken_when_that_is_asked_for(demo: ServerProcess, tmp_path: Path) -> None:
    arguments = ("say", "--text", "hello", "--from", "en", "--to", "es", "--url", demo.url)
    for number, flags in enumerate([("--speech",), ()]):
        file = tmp_path / f"{number}.wav"
        code, _, err = run(*arguments, *flags, "--out", file)
        assert code == 0, err
        with wave.open(str(file)) as sound:
            assert sound.getnframes() > 0


def test_a_recording_is_only_written_when_that_is_asked_for(
    demo: ServerProcess, tmp_path: Path
) -> None:
    file = recording(tmp_path / "in.wav")
    arguments = ("say", file, "--from", "en", "--to", "es", "--url", demo.url, "--json")
    for flag, has_audio in (("--no-speech", False), ("--speech", True)):
        code, out, err = run(*arguments, flag)
        assert code == 0, err
        result = json.loads(out)
        assert result["text_asr"].startswith("[en, simulated] ")
        assert ("tts_format" in result) is has_audio


def test_a_recording_is_heard_and_its_translations_are_written(
    demo: ServerProcess, tmp_path: Path
) -> None:
    file = recording(tmp_path / "in.wav")
    out_file = tmp_path / "out.wav"
    arguments = ("say", file, "--from", "en", "--to", "es,zh", "--out", out_file)
    code, out, err = run(*arguments, "--data-dir", demo.data_dir)
    assert code == 0, err
    assert "heard" in out
    for language in ("es", "zh"):
        with wave.open(str(tmp_path / f"out.{language}.wav")) as sound:
            assert sound.getnframes() > 0


def speech(path: Path, *sentences: str) -> Path:
    """Sentences with pauses of a second and a half between them."""
    pause = bytes(48_000)
    samples = pause.join(spoken(sentence).samples for sentence in sentences)
    path.write_bytes(wav_bytes(Pcm16(samples + pause, 16_000)))
    return path


def test_a_recording_of_several_sentences_is_as_many_utterances(
    demo: ServerProcess, tmp_path: Path
) -> None:
    file = speech(tmp_path / "in.wav", "good morning my friend", "we have a lot of time")
    out_file = tmp_path / "out.wav"
    arguments = ("say", file, "--from", "en", "--to", "es", "--url", demo.url, "--json")
    code, out, err = run(*arguments, "--out", out_file)
    assert code == 0, err
    results = [json.loads(line) for line in out.splitlines()]
    assert [result["utterance_index"] for result in results] == [0, 1]
    with wave.open(str(out_file)) as sound:
        assert sound.getnframes() > 0


SOUND_CARD = """
import os, threading, time, wave

class PortAudioError(Exception):
    pass

class RawInputStream:
    '''Plays a recording as a microphone would hear it, then silence until it is stopped.'''

    def __init__(self, *, samplerate, blocksize, channels, dtype, device, callback):
        if device == 7:
            raise PortAudioError("no such device")
        self.blocksize, self.callback, self.stopped = blocksize, callback, threading.Event()
        with wave.open(os.environ["PLAYED"]) as played:
            assert (channels, dtype, samplerate) == (1, "int16", played.getframerate())
            self.samples = played.readframes(10**9)

    def start(self):
        threading.Thread(target=self.play, daemon=True).start()

    def play(self):
        size, at = 2 * self.blocksize, 0
        while not self.stopped.wait(0.02):
            block = self.samples[at : at + size]
            self.callback(block + bytes(size - len(block)), None, None, None)
            at += size

    def stop(self):
        self.stopped.set()

    def close(self):
        pass
"""
"""Stands for the package that reads a sound card: there is none where tests run."""


def say_into_a_microphone(demo: ServerProcess, folder: Path, *flags: str) -> subprocess.Popen[str]:
    (folder / "sounddevice.py").write_text(SOUND_CARD)
    played = speech(folder / "played.wav", "good morning my friend", "we have a lot of time")
    languages = ("--from", "en", "--to", "es", "--url", demo.url)
    return subprocess.Popen(
        [DRAGOMAN, "say", "--microphone", *languages, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONPATH=str(folder), PLAYED=str(played), PYTHONUNBUFFERED="1"),
    )


def test_a_microphone_says_as_many_utterances_as_are_spoken_until_ctrl_c(
    demo: ServerProcess, tmp_path: Path
) -> None:
    process = say_into_a_microphone(demo, tmp_path, "--json")
    assert process.stdout is not None
    try:
        results = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert [result["utterance_index"] for result in results] == [0, 1]
    assert (process.returncode, rest) == (0, ""), errors
    assert "Ctrl-C ends" in errors


def test_a_microphone_that_cannot_be_used_is_one_sentence(
    demo: ServerProcess, tmp_path: Path
) -> None:
    process = say_into_a_microphone(demo, tmp_path, "--device", "7")
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "The microphone cannot be used (no such device)" in errors
    assert "Traceback" not in errors


def test_results_can_be_had_as_json(demo: ServerProcess) -> None:
    arguments = ("say", "--text", "hello", "--from", "en", "--to", "es", "--json")
    code, out, _ = run(*arguments, "--url", demo.url)
    [result] = map(json.loads, out.splitlines())
    assert code == 0
    assert result["text_translated"] == "[es, simulated] hello"
    assert result["scheduling"]["attempts"] >= 1


def test_a_pair_that_no_node_serves_fails_with_the_reasons(demo: ServerProcess) -> None:
    arguments = ("say", "--text", "hello", "--from", "en", "--to", "sv", "--url", demo.url)
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert "PAIR_UNSUPPORTED" in err
    assert "Traceback" not in err


def test_a_server_that_is_not_there_fails_with_the_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"ws://127.0.0.1:{free_port()}"
    assert main(["say", "--text", "hello", "--from", "en", "--to", "es", "--url", url]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert url in err
    assert "dragoman demo" in err


def test_a_folder_without_a_server_fails_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path)
    assert main(["say", "--text", "hi", "--from", "en", "--to", "es", "--data-dir", folder]) == 1
    err = capsys.readouterr().err
    assert folder in err
    assert "dragoman demo" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--text", "hi", "--to", "es"), "--from"),
        (("--text", "hi", "--from", "en"), "--to"),
        (("--text", "hi", "--from", "en", "--to", "es,"), "list of languages"),
        (("--text", "hi", "--from", "e", "--to", "es"), "`--from` holds 'e'"),
        (("--text", "hi", "--from", "en", "--to", "es,english"), "`--to` holds 'english'"),
        (("--text", "hi", "--from", "en", "--to", "auto"), "`--to` is `auto`, which only --from"),
        (("--from", "en", "--to", "es"), "either"),
        (("--text", "hi", "--microphone", "--from", "en", "--to", "es"), "either"),
        (("--text", "hi", "--device", "x", "--from", "en", "--to", "es"), "--device"),
        (("--text", "hi", "--from", "en", "--to", "es", "--no-speech", "--out", "x.wav"), "--out"),
        (("missing.wav", "--from", "en", "--to", "es"), "missing.wav"),
        (("--text", "hi", "--from", "en", "--to", "es", "--url", "nowhere"), "nowhere"),
    ],
)
def test_bad_usage_is_told_before_anything_is_connected(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["say", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err


def test_a_recording_whose_header_is_damaged_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "damaged.wav"
    with wave.open(str(file), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(b"ab" * 40)
    content = bytearray(file.read_bytes())
    content[16] = 32  # The format is said to be longer than it is.
    file.write_bytes(content)
    assert main(["say", str(file), "--from", "en", "--to", "es"]) == 2
    assert "damaged.wav" in capsys.readouterr().err


def test_a_file_that_is_no_recording_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.wav"
    file.write_text("these are not samples")
    assert main(["say", str(file), "--from", "en", "--to", "es"]) == 2
    assert "notes.wav" in capsys.readouterr().err
