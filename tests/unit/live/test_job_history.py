"""The last hour, minute by minute, bounded in what it keeps."""

from __future__ import annotations

from dragoman.api.live.history import HistoryBy, HistoryItem, HistoryShown, merged_history
from dragoman.clock import ManualClock
from dragoman.ids import NodeId
from dragoman.live.dispatch import MINUTES, JobHistory, MinuteSeries
from dragoman.live.dispatch.history import EndedJob


def end(
    history: JobHistory,
    clock: ManualClock,
    pair: str,
    node: str | None,
    *,
    failed: bool = False,
    ms: int = 10,
) -> None:
    node_id = None if node is None else NodeId(node)
    history.ended.append(EndedJob(pair, node_id, failed, clock.monotonic(), ms / 1000, ms // 2))


def test_jobs_are_counted_in_the_minute_in_which_they_ended() -> None:
    clock = ManualClock()
    history = JobHistory(clock)
    end(history, clock, "en:es", "n-1", ms=10)
    end(history, clock, "en:es", "n-2", ms=30, failed=True)
    clock.advance(60)
    end(history, clock, "en:es", "n-1", ms=100)
    # They are counted now, by when they ended.
    last = history.last_minute()
    pair = history.pair("en:es", last)
    assert pair is not None
    assert len(pair.jobs) == MINUTES
    assert (pair.jobs[-2:], pair.failed[-2:]) == ([2, 1], [1, 0])
    assert pair.mean_ms[-3:] == [None, 20.0, 100.0]
    assert pair.longest_ms[-2:] == [30.0, 100.0]
    node = history.node("n-1", last)
    assert node is not None
    assert (node.jobs[-2:], node.mean_ms[-2:]) == ([1, 1], [5.0, 50.0])
    assert history.total(last).jobs[-2:] == [2, 1]


def test_a_minute_is_forgotten_after_an_hour_and_its_place_is_clean() -> None:
    clock = ManualClock()
    history = JobHistory(clock)
    end(history, clock, "en:es", "n-1")
    history.refused("en:xx", clock.monotonic())
    history.count()
    clock.advance(59 * 60)
    assert sum(history.total(history.last_minute()).jobs) == 1
    assert [name for name, _ in history.pairs(history.last_minute(), 10)] == ["en:xx", "en:es"]
    clock.advance(60)
    last = history.last_minute()
    assert sum(history.total(last).jobs) == 0
    assert history.pairs(last, 10) == []
    end(history, clock, "en:es", "n-1")
    pair = history.pair("en:es", last)
    assert pair is not None
    assert sum(pair.jobs) == pair.jobs[-1] == 1


def test_what_did_nothing_for_longest_makes_room() -> None:
    clock = ManualClock()
    history = JobHistory(clock, pairs_kept=2, nodes_kept=2)
    for pair, node in (("a:b", "n-1"), ("c:d", "n-2"), ("a:b", "n-1"), ("e:f", "n-3")):
        end(history, clock, pair, node)
        history.count()
    last = history.last_minute()
    assert {name for name, _ in history.pairs(last, 10)} == {"a:b", "e:f"}
    assert {name for name, _ in history.nodes(last, 10)} == {"n-1", "n-3"}
    assert [name for name, _ in history.pairs(last, 1)] == ["a:b"]
    assert sum(history.total(last).jobs) == 4


def shown(last: int, jobs: int, mean: float) -> HistoryShown:
    nothing = [0] * (MINUTES - 1)
    series = MinuteSeries(
        jobs=[*nothing, jobs],
        failed=[*nothing, 0],
        refused=[*nothing, 1],
        mean_ms=[*([None] * (MINUTES - 1)), mean],
        longest_ms=[*nothing, mean],
    )
    return HistoryShown("", last, HistoryBy.PAIR, series, [HistoryItem("en:es", series)])


def test_instances_whose_minutes_differ_are_added_minute_by_minute() -> None:
    merged = merged_history([shown(100, 1, 10.0), shown(101, 3, 30.0), shown(101, 1, 10.0)], 10)
    (item,) = merged.items
    assert merged.last_minute == 101
    assert item.series.jobs[-2:] == [1, 4]
    assert item.series.mean_ms[-3:] == [None, 10.0, 25.0]
    assert item.series.longest_ms[-2:] == [10.0, 30.0]
    assert merged.total.refused[-2:] == [1, 2]
