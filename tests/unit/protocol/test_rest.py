from __future__ import annotations

import msgspec
import pytest

from dragoman.ids import AttemptId, JobId, NodeId, RequestId
from dragoman.live.protocol import (
    AttemptExplanation,
    AttemptState,
    AttemptTimes,
    AttemptView,
    ExclusionReason,
    ExplainView,
    JobClass,
    JobRequest,
    JobState,
    JobView,
    LeftOutNodes,
    ListPage,
    decode_body,
    utc_time,
)

JOB = JobView(
    job_id=JobId("j-1"),
    request_id=RequestId("r-1"),
    state=JobState.RUNNING,
    job_class=JobClass.LIVE,
    src_lang="en",
    tgt_lang="es",
    attempts=(
        AttemptView(
            attempt=1,
            attempt_id=AttemptId("a-1"),
            node_id=NodeId("n-1"),
            state=AttemptState.RUNNING,
            at=AttemptTimes(dispatched="2026-01-31T12:00:00.000Z"),
        ),
    ),
)


def test_a_job_view_names_every_field_also_those_that_are_empty() -> None:
    view = msgspec.to_builtins(JOB)
    assert view.keys() == {
        *("job_id", "request_id", "state", "outcome", "error", "class", "src_lang", "tgt_lang"),
        *("node_id", "attempts", "result", "live_sample", "scheduling", "preemptions", "services"),
    }
    assert view["outcome"] is None
    assert view["attempts"][0]["at"].keys() == {"dispatched", "accepted", "running", "finished"}


def test_a_page_of_jobs_can_be_read_back() -> None:
    page = ListPage(items=[JOB], next="c-2")
    assert msgspec.json.decode(msgspec.json.encode(page), type=ListPage[JobView]) == page


def test_an_explanation_counts_nodes_by_reason() -> None:
    left_out = {ExclusionReason.NO_FREE_SLOT: LeftOutNodes(count=2, nodes=(NodeId("n-1"),))}
    attempt = AttemptExplanation(1, 7, "en:es", (0, 3), left_out, NodeId("n-2"))
    written = msgspec.json.decode(msgspec.json.encode(ExplainView(JobId("j"), (attempt,))))
    assert written["attempts"][0]["reasons"] == {"no_free_slot": {"count": 2, "nodes": ["n-1"]}}


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
    ],
)
def test_times_are_written_in_utc_with_milliseconds(at_ms: int, text: str) -> None:
    assert utc_time(at_ms) == text


def test_a_job_request_is_live_pcm_at_16_khz_unless_it_says_otherwise() -> None:
    request = decode_body(b'{"src_lang":"en","tgt_lang":"es","audio":"AAA="}', JobRequest)
    assert request.job_class is JobClass.LIVE
    assert (request.audio, request.audio_format, request.sample_rate) == (b"\0\0", "pcm16", 16000)
