"""Which live jobs are scored, and by which evaluators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dragoman.api.lab import live_sampling
from dragoman.api.lab.live_sampling import (
    SAMPLES_MAX,
    FoundSample,
    LiveSampler,
    nothing_to_score,
    why_left_out,
)
from dragoman.errors import ExperimentNotRunning, SettingsError
from dragoman.ids import AttemptId, JobId, RequestId, TenantId
from dragoman.lab.live_sample import NOT_IN_THE_LAB, item_of, sample_evaluators
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import AudioFormat, JobClass, JobResult, Outcome, Pipeline
from dragoman.observability import Metrics
from dragoman.settings import LiveSampleSettings


def spec(**fields: Any) -> JobSpec:
    given = {
        "tenant": TenantId("acme"),
        "request_id": RequestId("r"),
        "src_lang": "en",
        "tgt_lang": "es",
        "pipeline": Pipeline(),
        "job_class": JobClass.LIVE,
    }
    return JobSpec(**{**given, **fields})


def rules(**fields: Any) -> LiveSampleSettings:
    return LiveSampleSettings(**{"tenants": ("acme",), "share": 1.0, **fields})


JOB = JobId("j-1")


def test_no_job_is_scored_by_default() -> None:
    assert "tenants" in (why_left_out(LiveSampleSettings(), spec(), JOB) or "")


@pytest.mark.parametrize(
    ("settings", "fields", "word"),
    [
        ({}, {"tenant": TenantId("other")}, "tenants"),
        ({}, {"job_class": JobClass.BATCH}, "batch"),
        ({"pairs": ("en:de",)}, {}, "pairs"),
        ({"pairs": ("es:en",)}, {}, "pairs"),
        ({"share": 0.0}, {}, "share"),
    ],
)
def test_a_job_that_is_left_out_says_why(
    settings: dict[str, Any], fields: dict[str, Any], word: str
) -> None:
    assert word in (why_left_out(rules(**settings), spec(**fields), JOB) or "")


def test_a_job_of_a_listed_tenant_and_pair_is_taken() -> None:
    assert why_left_out(rules(), spec(), JOB) is None
    assert why_left_out(rules(pairs=("EN:es",)), spec(), JOB) is None


def test_the_share_is_that_of_all_jobs_and_the_same_everywhere() -> None:
    jobs = [JobId(f"j-{n}") for n in range(5_000)]
    taken = [job for job in jobs if why_left_out(rules(share=0.1), spec(), job) is None]
    assert 400 <= len(taken) <= 600
    more = [job for job in jobs if why_left_out(rules(share=0.2), spec(), job) is None]
    assert set(taken) < set(more), "who raises the share keeps the jobs that were in it"


def test_a_job_is_the_same_item_whenever_it_comes() -> None:
    assert item_of("j-1") == item_of("j-1") != item_of("j-2")


@pytest.mark.parametrize("kind", ["exact", "contains", "json_match", "wer", "bleu", "chrf", "ter"])
def test_evaluators_that_need_a_reference_are_refused(kind: str) -> None:
    for column in ("reference", "source"):
        with pytest.raises(SettingsError, match=r"evaluators\[0\].*reference"):
            sample_evaluators([{"kind": kind, "reference": column}])


def test_evaluators_that_look_at_the_output_alone_are_taken() -> None:
    found = sample_evaluators(
        [
            {"kind": "regex", "pattern": r"\S", "name": "not_empty"},
            {"kind": "length_ratio", "reference": "source"},
            {"kind": "code", "code": "len(output) < 500"},
        ]
    )
    assert [one.name for one in found] == ["not_empty", "length_ratio", "code"]


@pytest.mark.parametrize(
    ("evaluators", "words"),
    [
        ([{"pattern": "x"}], "needs a kind"),
        ([{"kind": "magic"}], "magic"),
        ([{"kind": "regex", "patern": "x"}], "patern"),
        ([{"kind": "length_ratio", "reference": "gold"}], "Live traffic has source"),
        ([{"kind": "regex", "pattern": "x"}] * 2, "Two of lab.live_sample.evaluators"),
    ],
)
def test_evaluators_that_cannot_work_are_refused_with_the_reason(
    evaluators: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        sample_evaluators(evaluators)


# --- what is said of a job that the lab does not have ---------------------------------------------


class Lab:
    """A lab that says of every job what it is told to, and takes none that it refuses."""

    def __init__(self, *, says: str = NOT_IN_THE_LAB, refuses: bool = False) -> None:
        self.says = says
        self.refuses = refuses
        self.was_asked = asyncio.Event()

    async def fetch(self, path: str) -> bytes:
        return msgspec.json.encode(FoundSample(reason=self.says))

    async def tell(self, path: str, body: bytes) -> None:
        self.was_asked.set()
        if self.refuses:
            raise ExperimentNotRunning("Experiment e-1 does not wait for items.")


class Dispatcher:
    """Tells of each job that succeeded that it has ended."""

    def watch_successes(self, on_success: Callable[[Any], None]) -> None:
        self.succeed = on_success

    def expect_job(self, job: Any, on_end: Callable[[Any], None]) -> None:
        on_end(job)


def sampled(lab: Lab) -> tuple[LiveSampler, Dispatcher]:
    sampler = LiveSampler(rules(), lab, Metrics())  # type: ignore[arg-type]
    dispatcher = Dispatcher()
    sampler.watch(dispatcher)  # type: ignore[arg-type]
    return sampler, dispatcher


def ended(number: int, **output: Any) -> Any:
    """A text job that succeeded, as both the dispatcher and the ledger describe it."""
    return SimpleNamespace(
        job_id=JobId(f"j-{number}"),
        spec=spec(pipeline=Pipeline(use_asr=False, use_nmt=True)),
        input=JobInput(text="good morning"),
        outcome=Outcome.SUCCESS,
        output=result(**output),
        created_ms=0,
        finished_ms=1,
    )


def result(**output: Any) -> JobResult:
    given = {"text_translated": "buenos días", **output}
    return JobResult(job_id=JobId("j"), attempt_id=AttemptId("a"), success=True, **given)


def said_of(sampler: LiveSampler, job: Any) -> str | None:
    view = asyncio.run(sampler.view(job))
    assert not view.scored
    return view.reason


def test_a_job_that_waits_for_the_lab_or_came_when_too_many_waited_says_so() -> None:
    sampler, dispatcher = sampled(Lab())
    jobs = [ended(number) for number in range(SAMPLES_MAX + 1)]
    for job in jobs:
        dispatcher.succeed(job)
    assert said_of(sampler, jobs[0]) == "It waits for the lab to take it."
    assert said_of(sampler, jobs[-1]) == "It was left out: 1,000 jobs were waiting for the lab."
    assert said_of(sampler, ended(-1)) == NOT_IN_THE_LAB, "another server drove it"


def test_of_left_out_jobs_only_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sampling, "SAMPLES_MAX", 0)
    monkeypatch.setattr(live_sampling, "REASONS_MAX", 3)
    sampler, dispatcher = sampled(Lab())
    jobs = [ended(number) for number in range(4)]
    for job in jobs:
        dispatcher.succeed(job)
    assert said_of(sampler, jobs[0]) == NOT_IN_THE_LAB
    assert "left out" in (said_of(sampler, jobs[1]) or "")


def test_a_job_that_the_lab_refused_says_why_unless_the_lab_knows_better() -> None:
    async def story() -> None:
        lab = Lab(refuses=True)
        sampler, dispatcher = sampled(lab)
        dispatcher.succeed(ended(1))
        await sampler.start()
        await lab.was_asked.wait()
        await sampler.stop()
        assert (await sampler.view(ended(1))).reason == (
            "The lab refused it: Experiment e-1 does not wait for items."
        )
        lab.says = "The experiment 'live sample' is terminated."
        assert (await sampler.view(ended(1))).reason == lab.says

    asyncio.run(story())


@pytest.mark.parametrize(
    ("fields", "output", "words"),
    [
        ({"pipeline": Pipeline(use_nmt=False)}, None, "asked for no translation"),
        ({"pipeline": Pipeline(use_nmt=True)}, None, None),
        ({}, {"text_translated": None}, "has no translation"),
        ({"audio_format": AudioFormat.PCM16}, {}, "does not say what was said"),
        ({"audio_format": AudioFormat.PCM16}, {"text_asr": "good morning"}, None),
        ({}, {}, None),
    ],
)
def test_a_success_without_both_texts_has_nothing_to_score(
    fields: dict[str, Any], output: dict[str, Any] | None, words: str | None
) -> None:
    found = nothing_to_score(spec(**fields), None if output is None else result(**output))
    assert (found is None) if words is None else (words in (found or ""))
