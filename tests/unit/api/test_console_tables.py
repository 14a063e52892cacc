"""A table that any number of watchers follow, each from where it stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.api.live.console.tables import DEPARTURES_KEPT, Table

steps = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "look"]), st.integers(0, 5), st.integers(0, 3)),
    max_size=60,
)


@given(steps)
def test_whoever_applies_what_it_missed_knows_the_table_whenever_it_looks(
    taken: list[tuple[str, int, int]],
) -> None:
    table: Table[int, tuple[int, int]] = Table()
    truth: dict[int, tuple[int, int]] = {}
    known: dict[int, tuple[int, int]] = {}
    version: int | None = None
    for step, key, value in [*taken, ("look", 0, 0)]:
        if step == "put":
            table.put(key, (key, value))
            truth[key] = (key, value)
        elif step == "remove":
            table.remove(key)
            truth.pop(key, None)
        else:
            change = table.since(version)
            if change.reset:
                known = {}
            for gone in change.gone:
                known.pop(gone, None)
            known |= {row[0]: row for row in change.changed}
            version = table.version
            assert known == truth


def test_what_did_not_change_is_not_told() -> None:
    table: Table[str, int] = Table()
    table.put("a", 1)
    table.put("b", 1)
    version = table.version
    table.put("a", 1)
    assert table.version == version
    table.put("b", 2)
    change = table.since(version)
    assert (change.reset, change.changed, change.gone) == (False, [2], [])


def test_a_watcher_that_was_away_for_too_many_departures_begins_anew() -> None:
    table: Table[int, int] = Table()
    table.put(-1, -1)
    version = table.version
    for key in range(DEPARTURES_KEPT + 1):
        table.put(key, key)
        table.remove(key)
    assert table.since(version).reset
    assert table.since(version).changed == [-1]
    assert not table.since(table.version).reset


def test_a_version_from_the_future_is_of_another_table() -> None:
    assert Table[str, int]().since(7).reset
