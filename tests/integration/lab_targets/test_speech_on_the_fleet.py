"""The lab judges what a fleet hears and says: real speech, real tools, two versions compared."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import jiwer
import pytest
from tests.integration.engines.speech import heard_by_itself, spoken, translated_by_itself
from tests.integration.lab_targets.fleets import node_of, serving, write_rows
from tests.integration.serve.server_process import DRAGOMAN, environment

from dragoman.audio import Pcm16, read_wav, resampled, wav_bytes
from dragoman.sdk import Answer, Job

SENTENCES = {
    "good morning my friend": "buenos días mi amigo",
    "the house is very big": "la casa es muy grande",
    "we have a lot of time": "tenemos mucho tiempo",
    "the water is cold today": "el agua está fría hoy",
    "he was in the city yesterday": "él estuvo en la ciudad ayer",
    "my brother works in the school": "mi hermano trabaja en la escuela",
}
HEARD_AGAIN = 2
"""With how many of them the tools are tried once more, beside the fleet: each takes seconds."""
EXPERIMENT = """
name = "{name}"
[dataset]
file = "speech.jsonl"
audio = ["speech"]
[target]
kind = "fleet"
url = "{url}"
src_lang = "en"
tgt_lang = "es"
input = "speech"
pipeline = {{ use_tts = false }}
[[evaluators]]
kind = "wer"
reference = "said"
output = "text_asr"
[[evaluators]]
kind = "chrf"
reference = "meant"
[[evaluators]]
kind = "latency"
[run]
concurrency = 2
"""
BUSY_MACHINE = {
    "job_timeout": {"run_seconds": 200, "total_seconds": 250},
    "node_health": {"resource_threshold_percent": 0},
}


def recognised(sound: Pcm16) -> Answer:
    heard = heard_by_itself(sound)
    return Answer(text_asr=heard, text_translated=translated_by_itself(heard) if heard else "")


def first_version(job: Job) -> Answer:
    """Hears the whole recording."""
    return recognised(resampled(read_wav(job.audio or b""), 16_000))


def second_version(job: Job) -> Answer:
    """Hears the first half of it."""
    sound = resampled(read_wav(job.audio or b""), 16_000)
    half = len(sound.samples) // 4 * 2
    return recognised(Pcm16(sound.samples[:half], 16_000))


async def dragoman(folder: Path, *arguments: str) -> str:
    """What a command prints."""
    process = await asyncio.create_subprocess_exec(
        DRAGOMAN, *arguments, cwd=folder, stdout=PIPE, stderr=PIPE, env=environment()
    )
    printed, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    return printed.decode()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two experiments over the same recordings, each on a fleet with one version of the models."""
    folder = tmp_path_factory.mktemp("speech")
    rows = []
    for number, (said, meant) in enumerate(SENTENCES.items()):
        (folder / f"{number}.wav").write_bytes(wav_bytes(spoken(said)))
        rows.append({"speech": f"{number}.wav", "said": said, "meant": meant})
    write_rows(folder / "speech.jsonl", rows)
    found: dict[str, Any] = {}

    async def story() -> None:
        offer = {"asr": ["en"], "nmt": ["en", "es"], "slots": 2, "threads": True}
        async with (
            serving(folder / "one", scheduler=BUSY_MACHINE) as one,
            serving(folder / "two", scheduler=BUSY_MACHINE) as two,
            node_of(one, first_version, **offer),
            node_of(two, second_version, **offer),
        ):
            for name, server in (("v1", one), ("v2", two)):
                file = folder / f"{name}.toml"
                file.write_text(EXPERIMENT.format(name=name, url=server.url))
                await dragoman(folder, "experiment", "run", file.name)
        for name in ("v1", "v2"):
            rows = await dragoman(folder, "experiment", "results", name, "--json")
            found[name] = json.loads(rows)
        compared = await dragoman(folder, "experiment", "compare", "v1", "v2", "--json")
        found["compared"] = json.loads(compared)
        found["words"] = await dragoman(folder, "experiment", "compare", "v1", "v2")

    asyncio.run(story())
    return found


def test_scores_are_of_what_the_tools_hear_and_say(printed: dict[str, Any]) -> None:
    assert len(printed["v1"]) == len(SENTENCES)
    for number, row in enumerate(printed["v1"]):
        said, heard = row["input"]["said"], row["output"]["text_asr"]
        if number < HEARD_AGAIN:
            again = heard_by_itself(resampled(read_wav(wav_bytes(spoken(said))), 16_000))
            assert heard == again
            assert row["output"]["output"] == translated_by_itself(again)
        assert row["scores"]["wer"]["score"] == pytest.approx(jiwer.wer(said, heard))
        assert row["scores"]["chrf"]["score"] is not None
        assert row["scores"]["latency"]["score"] == row["output"]["node_ms"] > 0


def test_two_versions_of_a_service_are_compared_with_a_test(printed: dict[str, Any]) -> None:
    (other,) = printed["compared"]["others"]
    wer = other["scores"]["wer"]
    assert wer["delta"] > 0, "half of the recording is not heard"
    assert wer["p"] is not None
    assert other["scores"]["chrf"]["delta"] < 0
    assert other["scores"]["latency"]["delta"] is not None
    assert "wer" in printed["words"]
