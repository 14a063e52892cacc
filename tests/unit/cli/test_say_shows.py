"""What ``dragoman say`` prints of a result."""

from __future__ import annotations

import pytest

from dragoman.cli.say import _show
from dragoman.ids import JobId, RequestId, SessionId
from dragoman.live.protocol import Scheduling, TranslationResult


def result(**fields: object) -> TranslationResult:
    return TranslationResult(
        delivery_seq=1,
        session_id=SessionId("s"),
        utterance_index=0,
        tgt_lang="es",
        job_id=JobId("j"),
        request_id=RequestId("r"),
        **fields,  # type: ignore[arg-type]
    )


def test_of_silence_no_waiting_times_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    times = Scheduling(1, 2, 3, 6, 1, speech_end_to_result_ms=6.0)
    _show(result(scheduling=times, text_asr="", text_translated=""), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["heard", "es", "took"]
    assert all(line == line.rstrip() for line in lines)


def test_of_speech_the_waiting_times_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    times = Scheduling(1, 2, 3, 6, 1, speech_end_to_result_ms=6.0, speech_end_to_text_ms=5.0)
    _show(result(scheduling=times, text_asr="hello", text_translated="hola"), as_json=False)
    assert "speech end  text after 5 ms" in capsys.readouterr().out.splitlines()
