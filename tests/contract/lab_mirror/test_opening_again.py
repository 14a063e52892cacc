"""DuckDB keeps a little of each write for long; the mirror opens its file again, unseen."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
from tests.contract.lab_mirror.test_following import until
from tests.contract.lab_mirror.world import agree, followed, in_a_loop, ready, world

from dragoman.lab.mirror import duckdb_mirror, following
from dragoman.lab.mirror.batches import Batch, ScoreRow, TurnRow
from dragoman.lab.mirror.dialects import ValueKind
from dragoman.lab.mirror.duckdb_mirror import MANY_USES, QUIET_WRITES, DuckDbMirror
from dragoman.lab.mirror.queries import Query, Value
from dragoman.lab.model import ExperimentId, ItemId

_EXPERIMENT = ExperimentId("e-1")
_ITEMS = [ItemId(f"i-{number}") for number in range(20)]
_ALL = Query(
    "SELECT item_id, text_0, number_0 FROM lab_turn WHERE experiment_id = $1 ORDER BY item_id",
    (Value(ValueKind.TEXT, _EXPERIMENT),),
)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[DuckDbMirror]:
    made = DuckDbMirror(tmp_path / "lab.duckdb")
    made.begin("m-1")
    yield made
    made.close()


def write(mirror: DuckDbMirror, flush_no: int) -> None:
    """Replace every row."""
    batch = Batch(flush_no, flush_no * len(_ITEMS))
    batch.items[_EXPERIMENT] = _ITEMS
    for number, item_id in enumerate(_ITEMS):
        row_no = batch.first_row_no + number
        batch.turns.append(
            TurnRow(
                experiment_id=_EXPERIMENT,
                item_id=item_id,
                repetition=0,
                turn_no=1,
                row_no=row_no,
                shown_id=item_id,
                status="success",
                error_code=None,
                error_message=None,
                latency_ms=1.5,
                tokens=None,
                cost=None,
                outcome=0,
                numbers={0: float(flush_no)},
                texts={0: f"text {flush_no}"},
            )
        )
        batch.scores.append(
            ScoreRow(
                experiment_id=_EXPERIMENT,
                evaluator_no=1,
                name="exact",
                item_id=item_id,
                repetition=0,
                turn_no=1,
                row_no=row_no,
                score=1.0,
                label="pass",
                reason=None,
                error_code=None,
                error_message=None,
                statistics=(),
            )
        )
    mirror.apply(batch)


def written(flush_no: int) -> list[tuple[object, ...]]:
    return [(item_id, f"text {flush_no}", float(flush_no)) for item_id in sorted(_ITEMS)]


def test_a_quiet_mirror_is_opened_again_after_some_writes(
    mirror: DuckDbMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_mirror, "QUIET_WRITES", 4)
    for flush_no in range(1, 4):  # the mirror's beginning was a write, too
        mirror.tidy(quiet=True)
        assert mirror.openings == 1
        write(mirror, flush_no)
        mirror.tidy(quiet=False)
        assert mirror.openings == 1
    mirror.tidy(quiet=True)
    assert mirror.openings == 2
    assert mirror.ask(_ALL) == written(3)
    identity = mirror.identity()
    assert identity is not None
    assert identity.flush_no == 3
    mirror.tidy(quiet=True)
    assert mirror.openings == 2


def test_a_busy_mirror_is_opened_again_after_many_uses(mirror: DuckDbMirror) -> None:
    write(mirror, 1)
    for _ in range(MANY_USES):
        mirror.slots(_EXPERIMENT)
    mirror.tidy(quiet=False)
    assert mirror.openings == 2
    assert mirror.ask(_ALL) == written(1)


def test_a_reader_keeps_its_snapshot_and_the_file_is_opened_after_it(
    mirror: DuckDbMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_mirror, "QUIET_WRITES", 2)
    write(mirror, 1)
    with mirror.reading() as reader:
        assert reader.ask(_ALL) == written(1)
        write(mirror, 2)
        mirror.tidy(quiet=True)
        assert mirror.openings == 1
        assert reader.ask(_ALL) == written(1)
    mirror.tidy(quiet=True)
    assert mirror.openings == 2
    assert mirror.ask(_ALL) == written(2)


def test_readers_of_a_mirror_that_is_opened_again_and_again_never_miss_it(
    mirror: DuckDbMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_mirror, "MANY_USES", 3)
    write(mirror, 0)
    latest = 0
    done = Event()
    failures: list[object] = []

    def read(seed: int) -> None:
        random = Random(seed)
        while not done.is_set():
            earliest = latest
            try:
                if random.random() < 0.5:
                    found = mirror.ask(_ALL)
                else:
                    with mirror.reading() as reader:
                        found = reader.ask(_ALL)
                        if reader.ask(_ALL) != found:
                            failures.append("two states in one snapshot")
            except Exception as error:
                failures.append(error)
                return
            flush_no = int(str(found[0][1]).removeprefix("text "))
            if found != written(flush_no) or flush_no < earliest:
                failures.append((earliest, found))

    readers = [Thread(target=read, args=(seed,)) for seed in range(2)]
    for reader in readers:
        reader.start()
    try:
        while mirror.openings < 6 and not failures:
            write(mirror, latest + 1)
            latest += 1
            mirror.tidy(quiet=False)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert failures == []
    assert mirror.ask(_ALL) == written(latest)


def test_writes_leave_nothing_in_memory_once_it_is_quiet(mirror: DuckDbMirror) -> None:
    in_use_bytes = _malloc_reader()
    flush_no = 0

    def write_some(times: int) -> None:
        nonlocal flush_no
        for _ in range(times):
            flush_no += 1
            write(mirror, flush_no)
        mirror.tidy(quiet=True)

    for _ in range(2):  # what exists from the first use on
        write_some(QUIET_WRITES)
    before = in_use_bytes()
    for _ in range(4):
        write_some(QUIET_WRITES)
    grown = in_use_bytes() - before
    writes = 4 * QUIET_WRITES
    assert grown < writes * 1_000, f"{grown} bytes after {writes} writes"


@in_a_loop
async def test_a_lab_with_nothing_to_do_opens_its_mirror_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_mirror, "QUIET_WRITES", 2)
    url = f"duckdb:///{tmp_path}/lab.duckdb"
    async with world(database_url, 1) as at, followed(at.store, url) as (follower, _):
        experiment_id = await at.new_experiment(5)
        for _ in range(3):
            await at.change_some(experiment_id)
            await agree(at.store, follower, experiment_id)
        mirror = await ready(follower, experiment_id)
        openings = mirror.openings
        await until(lambda: mirror.openings == openings + 1)
        await agree(at.store, follower, experiment_id)
        await at.change_some(experiment_id)
        await agree(at.store, follower, experiment_id)
        assert await ready(follower, experiment_id) is mirror


@in_a_loop
async def test_what_is_known_of_experiments_is_bounded_and_found_anew(
    database_url: str, mirror_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "KNOWN_EXPERIMENTS", 3)
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (follower, _):
        experiment_ids = [await at.new_experiment(2) for _ in range(8)]
        seen = set()
        for changes in range(2):
            for experiment_id in experiment_ids:
                await at.add_items(experiment_id, 1)
                await agree(at.store, follower, experiment_id)
                stamp = follower.stamp(experiment_id)
                assert (experiment_id, stamp) not in seen, f"after {changes} changes"
                seen.add((experiment_id, stamp))
        assert follower.known_experiments <= 3


class _Mallinfo2(ctypes.Structure):
    """glibc's, from malloc.h."""

    _fields_ = [
        ("arena", ctypes.c_size_t),
        ("ordblks", ctypes.c_size_t),
        ("smblks", ctypes.c_size_t),
        ("hblks", ctypes.c_size_t),
        ("hblkhd", ctypes.c_size_t),
        ("usmblks", ctypes.c_size_t),
        ("fsmblks", ctypes.c_size_t),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    ]


def _malloc_reader() -> Callable[[], int]:
    """A function that tells how many bytes the C library has given out."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        pytest.skip("the C library does not tell how much memory is in use")
    mallinfo2.restype = _Mallinfo2

    def in_use_bytes() -> int:
        gc.collect()
        found = mallinfo2()
        return int(found.uordblks + found.hblkhd)

    return in_use_bytes


@in_a_loop
async def test_a_lab_that_is_stopped_while_it_opens_its_mirror_closes_it(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would tell the terminal, in fifty lines, what was left open."""
    is_opening, may_open = Event(), Event()
    closed: list[Path] = []

    class Slow(DuckDbMirror):
        def __init__(self, path: Path) -> None:
            is_opening.set()
            assert may_open.wait(60)
            super().__init__(path)

        def close(self) -> None:
            closed.append(self._path)
            super().close()

    monkeypatch.setattr(duckdb_mirror, "DuckDbMirror", Slow)
    file = tmp_path / "lab.duckdb"
    async with world(database_url, 1) as at, followed(at.store, f"duckdb:///{file}"):
        assert await asyncio.to_thread(is_opening.wait, 60)
        # By then the lab is being stopped.
        asyncio.get_running_loop().call_soon(may_open.set)
    assert closed == [file]
