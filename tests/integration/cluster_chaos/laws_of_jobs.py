"""What holds for jobs that were asked for without a session."""

from __future__ import annotations

from collections.abc import Iterator

from tests.integration.cluster_chaos.records import Answered
from tests.integration.cluster_chaos.story import Story, grouped

_SUCCESS = "success"


def a_request_is_one_job_with_one_end(story: Story) -> Iterator[str]:
    """Asked anywhere, a job has one outcome, and a request one success."""
    answers = story.of(Answered)
    for job_id, told in grouped(answers, lambda record: record.job_id).items():
        ends = {(record.outcome, record.text) for record in told if record.outcome is not None}
        if len(ends) > 1:
            yield f"job {job_id} ended as {sorted(ends, key=str)}"
    for request_id, told in grouped(answers, lambda record: record.request_id).items():
        done = {record.job_id for record in told if record.outcome == _SUCCESS}
        if len(done) > 1 and not story.lost_data(told[0].at, told[-1].at):
            yield f"{request_id} was done as {sorted(done)}"
        for record in told:
            if record.outcome == _SUCCESS and record.text != record.wanted:
                yield f"{request_id} wanted {record.wanted!r} and got {record.text!r}"
