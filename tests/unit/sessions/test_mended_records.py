"""A record that a failover took back in time, as the next owner of the session reads it."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.protocol import SessionInit
from dragoman.live.sessions.record import OpenJob, SessionOwner, SessionRecord
from dragoman.live.sessions.revival import mended


def record(
    *jobs: OpenJob, said: int, ended: Mapping[str, int], targets: tuple[str, ...] = ("es",)
) -> SessionRecord:
    return SessionRecord(
        SessionId("s"),
        TenantId("t"),
        "",
        SessionInit(src_lang="en", tgt_langs=targets),
        SessionOwner(InstanceId("a"), ConnectionId("c"), 1),
        next_utterance_index=said,
        open_jobs=jobs,
        ended=dict(ended),
    )


def job(index: int, target: str = "es") -> OpenJob:
    return OpenJob(index, target, JobId(f"j{index}{target}"))


def test_a_record_that_lost_nothing_stays_as_it_is() -> None:
    whole = record(job(3), job(4), said=5, ended={"es": 2})
    assert mended(whole) == whole


def test_a_new_session_stays_as_it_is() -> None:
    new = record(said=0, ended={})
    assert mended(new) == new


def test_what_is_still_open_though_later_ones_ended_has_ended() -> None:
    assert mended(record(job(6), job(9), said=10, ended={"es": 8})).open_jobs == (job(9),)


def test_what_is_neither_open_nor_ended_is_open_without_a_job() -> None:
    lost = OpenJob(3, "es", None)
    assert mended(record(job(4), said=5, ended={"es": 2})).open_jobs == (lost, job(4))


def test_what_was_lost_is_open_for_every_target_of_the_session() -> None:
    torn = record(said=2, ended={"es": 0, "de": 0}, targets=("es", "de"))
    assert mended(torn).open_jobs == (OpenJob(1, "de", None), OpenJob(1, "es", None))


def test_an_utterance_with_a_target_of_its_own_is_missed_by_no_other() -> None:
    open_for_one = record(job(3, "de"), said=4, ended={"es": 2, "de": 2}, targets=("es", "de"))
    assert mended(open_for_one) == open_for_one
    open_elsewhere = record(job(3, "fr"), said=4, ended={"es": 2})
    assert mended(open_elsewhere) == open_elsewhere
    ended_elsewhere = record(said=4, ended={"es": 2, "fr": 3})
    assert mended(ended_elsewhere) == ended_elsewhere
