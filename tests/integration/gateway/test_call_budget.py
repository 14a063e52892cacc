"""A job's way through the server is short: counted in calls, which no machine makes slower."""

from __future__ import annotations

from benchmarks.profiling.measure import Calls, calls_of_chunks, calls_of_jobs
from benchmarks.profiling.stages import by_stage

JOB_CALLS = 84
JOB_COROUTINES = 4
CHUNK_CALLS = 8

_SECONDS = 1.5


def test_a_text_job_takes_at_most_eighty_four_calls_and_four_coroutines() -> None:
    job = calls_of_jobs(_SECONDS)
    assert job.things > 100
    assert job.total <= JOB_CALLS, by_stages(job)
    assert job.coroutines <= JOB_COROUTINES, by_stages(job)


def test_a_chunk_of_speech_takes_at_most_eight_calls() -> None:
    """Besides its share of the job that the utterance becomes."""
    chunk = calls_of_chunks(_SECONDS)
    assert chunk.things > 500
    stages = by_stage(chunk.each.items())
    assert stages["frames in"] + stages["utterance"] <= CHUNK_CALLS, by_stages(chunk)


def by_stages(calls: Calls) -> str:
    shown = [f"{calls.total:.1f} calls, {calls.coroutines:.1f} of coroutines; by stage:"]
    shown += [f"  {stage}: {count:.1f}" for stage, count in by_stage(calls.each.items()).items()]
    most = sorted(calls.each.items(), key=lambda found: -found[1])[:40]
    return "\n".join([*shown, *(f"    {name}: {count:.2f}" for name, count in most)])
