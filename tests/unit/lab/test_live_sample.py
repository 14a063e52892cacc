"""Which live jobs are scored, and by which evaluators."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.api.lab.live_sampling import why_left_out
from dragoman.errors import SettingsError
from dragoman.ids import JobId, RequestId, TenantId
from dragoman.lab.live_sample import item_of, sample_evaluators
from dragoman.live.ledger import JobSpec
from dragoman.live.protocol import JobClass, Pipeline
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
