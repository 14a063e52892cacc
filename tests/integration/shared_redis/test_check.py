"""The check finds each kind of damage that is planted, repairs it, and lets sound things be."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from random import Random

import pytest
import redis
from tests.contract.shared.bench import HERE, TENANT, Attempt, Bench, Node
from tests.integration.shared_redis.conftest import OpenBench, ledger_of
from tests.integration.shared_redis.test_time_to_live import live_a_little, sweep
from tests.servers import PATIENT_MS, RedisCluster, RedisProcess
from typer.testing import CliRunner, Result

from dragoman.cli.cluster import app
from dragoman.cli.redis_keys import families
from dragoman.ids import JOB_SHARDS, JobId, new_id, request_in
from dragoman.live import cluster
from dragoman.live.ledger import Done
from dragoman.live.protocol import JobClass
from dragoman.live.shared import RedisCheck
from dragoman.live.shared import records as r
from dragoman.live.shared.check import REPAIRABLE, Damage, LedgerFinding, confirmed
from dragoman.redis_servers import family_of

pytestmark = pytest.mark.redis


class Scene:
    """A small cluster in which everything fits together, and the way to spoil it."""

    def __init__(self, bench: Bench, server: redis.Redis | redis.RedisCluster, url: str) -> None:
        self.bench = bench
        self.server = server
        self.prefix = ledger_of(bench).key_prefix
        self.url = url
        self.node: Node = bench.join("n-1", slots=3)
        self.other: Node = bench.join("n-2", slots=1)
        self.held = bench.begin()
        opening = bench.utterance(self.held, 0)
        self.job: r.NewJob = opening.jobs[0]
        bench.open(opening)
        self.attempt: Attempt = bench.dispatch(
            self.node, attempt_id=self.job.attempt_id, job_id=self.job.job_id
        )
        bench(sweep(bench))

    def key(self, name: str) -> str:
        return f"{self.prefix}:m2:{name}"

    @property
    def shard(self) -> str:
        return f"{{s{self.job.job_id[2:4]}}}"

    @property
    def record(self) -> str:
        [key] = self.server.scan_iter(self.key(f"{self.shard}:r:*"))
        return str(key.decode())

    def look(self) -> list[LedgerFinding]:
        return self.bench(self._look())

    async def _look(self) -> list[LedgerFinding]:
        check = self.open_check()
        try:
            return await check.look()
        finally:
            await check.close()

    def repair(self, findings: list[LedgerFinding]) -> list[bool]:
        async def repair() -> list[bool]:
            check = self.open_check()
            try:
                return [await check.repair(finding) for finding in findings]
            finally:
                await check.close()

        return self.bench(repair())

    def open_check(self) -> RedisCheck:
        return RedisCheck(
            self.url,
            families(),
            cluster=isinstance(self.server, redis.RedisCluster),
            key_prefix=self.prefix,
            timeout_ms=PATIENT_MS,
        )

    def command(self, *arguments: str) -> Result:
        """What `dragoman cluster check` says of it."""
        environment = {
            "DRAGOMAN_CLUSTER__REDIS_URL": self.url,
            "DRAGOMAN_CLUSTER__KEY_PREFIX": self.prefix,
        }
        return CliRunner().invoke(app, ["check", "--wait", "0", *arguments], env=environment)


@pytest.fixture
def scene(own_redis: RedisProcess, open_bench: OpenBench) -> Iterator[Scene]:
    with redis.Redis.from_url(own_redis.url) as server:
        yield Scene(open_bench(own_redis.url), server, own_redis.url)


@pytest.fixture
def scene_on_a_cluster(redis_cluster: RedisCluster, open_bench: OpenBench) -> Iterator[Scene]:
    with redis.RedisCluster.from_url(redis_cluster.url) as server:
        bench = open_bench(redis_cluster.url, cluster=True, key_prefix=new_id(Random(), "check"))
        yield Scene(bench, server, redis_cluster.url)


def board_field(scene: Scene, index: int, offset: int, packed: bytes) -> None:
    scene.server.setrange(scene.key("{c0}:board"), 44 * (index + 1) + offset, packed)


def count_too_many(scene: Scene) -> None:
    board_field(scene, 0, 4, struct.pack(">H", 3))


def count_too_few(scene: Scene) -> None:
    board_field(scene, 0, 0, struct.pack(">HHH", 3, 3, 0))


def lose_an_attempt(scene: Scene) -> None:
    scene.server.hdel(scene.key("{c0}:a"), scene.attempt.attempt_id)


def lose_a_seat(scene: Scene) -> None:
    board_field(scene, 0, 0, bytes(44))
    scene.server.hdel(scene.key("{c0}:seats"), "nn-1", "i0", "f0")


def lose_an_owner(scene: Scene) -> None:
    scene.server.hdel(scene.key("{c0}:seats"), "i0")


def lose_a_name(scene: Scene) -> None:
    scene.server.hdel(scene.key("{c0}:seats"), "nn-1")


def lose_a_victim(scene: Scene) -> None:
    bench = scene.bench
    victim = bench.dispatch(scene.other, job_class=JobClass.BATCH)
    job = bench.open_job()
    ask = bench.ask(scene.other, attempt_id=job.attempt_id, job_id=job.job_id)
    assert isinstance(bench(bench.ledger.preempt(ask)), r.Preempting)
    scene.server.hdel(scene.key("{c0}:a"), victim.attempt_id)
    board_field(scene, 1, 0, struct.pack(">HHH", 1, 1, 0))
    bench(sweep(bench))


def end_the_job(scene: Scene) -> None:
    scene.bench.close(scene.job, held=scene.held)


def lose_the_record(scene: Scene) -> None:
    scene.server.delete(scene.record)


def lose_the_list(scene: Scene) -> None:
    scene.server.hdel(scene.key(f"{scene.shard}:open"), scene.job.job_id)


def list_a_strange_job(scene: Scene) -> None:
    name = JobId(scene.job.job_id[:-4] + "0000")
    scene.server.hset(scene.key(f"{scene.shard}:open"), name, struct.pack("<d", 0))


def forget_the_node(scene: Scene) -> None:
    forgotten = scene.bench.ledger.forget(scene.node.node_id, scene.node.owner.epoch)
    assert scene.bench(forgotten) == Done()


def lose_an_entry(scene: Scene) -> None:
    scene.server.hdel(scene.key("{directory}:entries"), "n-2")


def miscount_the_members(scene: Scene) -> None:
    scene.server.hset(scene.key("{directory}:counts"), "0", 7)


def lose_a_member(scene: Scene) -> None:
    scene.server.zrem(scene.key("{directory}:members"), "n-1")


def live_for_ever(scene: Scene) -> None:
    scene.server.persist(scene.record)


def leave_a_key(scene: Scene) -> None:
    scene.server.set(scene.key("{c0}:something"), "else", px=60_000)


def spoil_an_attempt(scene: Scene) -> None:
    scene.server.hset(scene.key("{c0}:a"), "a-zzz", "xx")


def spoil_the_waiters(scene: Scene) -> None:
    scene.server.hset(scene.key("{c0}:a"), "w", "xx")


def spoil_the_attempt_of_a_job(scene: Scene) -> None:
    scene.server.hset(scene.key("{c0}:a"), scene.attempt.attempt_id, b"\xff" * 90)


def spoil_a_board(scene: Scene) -> None:
    scene.server.append(scene.key("{c0}:board"), "xx")


def spoil_an_owner(scene: Scene) -> None:
    scene.server.hset(scene.key("{c0}:seats"), "i0", "xx")


def leave_a_short_record(scene: Scene) -> None:
    scene.server.set(scene.key("{s03}:r:x"), "Oxx", px=60_000)


def leave_a_strange_record(scene: Scene) -> None:
    scene.server.set(scene.key("{s03}:r:y"), "Zgarbage", px=60_000)


def leave_a_record_under_another_request(scene: Scene) -> None:
    record = scene.server.get(scene.record)
    assert isinstance(record, bytes)
    scene.server.set(scene.key(f"{scene.shard}:r:0"), record, px=60_000)


def spoil_the_record(scene: Scene) -> None:
    scene.server.setrange(scene.record, 200, "x" * 2_000)


def list_garbage(scene: Scene) -> None:
    scene.server.hset(scene.key("{s02}:open"), "garbage", "xx")
    scene.server.pexpire(scene.key("{s02}:open"), 60_000)


def spoil_the_time_of_a_job(scene: Scene) -> None:
    scene.server.hset(scene.key(f"{scene.shard}:open"), scene.job.job_id, "x")


def list_jobs_in_a_string(scene: Scene) -> None:
    scene.server.set(scene.key("{s01}:open"), "foo", px=60_000)


def leave_a_strange_session(scene: Scene) -> None:
    scene.server.hset(scene.key("{s03}:z:x"), "h", "zz")
    scene.server.pexpire(scene.key("{s03}:z:x"), 60_000)


def leave_a_session_without_a_header(scene: Scene) -> None:
    scene.server.hset(scene.key("{s03}:z:x"), "s", "zz")
    scene.server.pexpire(scene.key("{s03}:z:x"), 60_000)


def spoil_an_utterance(scene: Scene) -> None:
    scene.server.hset(scene.key(f"{scene.shard}:z:{scene.held.session_id}"), "u7 es", "D")


def spoil_an_entry(scene: Scene) -> None:
    scene.server.hset(scene.key("{directory}:entries"), "ghost", "zz")


def spoil_the_entry_of_a_node(scene: Scene) -> None:
    scene.server.hset(scene.key("{directory}:entries"), "n-2", "zz")


def spoil_a_count(scene: Scene) -> None:
    scene.server.hset(scene.key("{directory}:counts"), "many", "xx")


def keep_the_directory_in_strings(scene: Scene) -> None:
    for name in ("entries", "members", "counts"):
        scene.server.set(scene.key(f"{{directory}}:{name}"), "xx")


def keep_a_cell_in_other_types(scene: Scene) -> None:
    scene.server.delete(*(scene.key(f"{{c0}}:{name}") for name in ("board", "a", "seats")))
    scene.server.set(scene.key("{c0}:a"), "xx", px=60_000)
    scene.server.set(scene.key("{c0}:seats"), "xx", px=60_000)
    scene.server.lpush(scene.key("{c0}:board"), "xx")
    scene.server.pexpire(scene.key("{c0}:board"), 60_000)


def leave_an_inbox(scene: Scene) -> None:
    scene.server.xadd(scene.key("{i:nobody}:inbox"), {"note": "x"})
    scene.server.pexpire(scene.key("{i:nobody}:inbox"), 60_000)


def leave_keys_with_strange_numbers(scene: Scene) -> None:
    for name in (b"{cx}:board", b"{c\xff}:a", b"{sxy}:open", b"{s03}:r\xff"):
        scene.server.set(scene.key("").encode() + name, "x", px=60_000)


def leave_an_inbox_with_a_strange_name(scene: Scene) -> None:
    key = scene.key("").encode() + b"{i:\xff}:inbox"
    scene.server.xadd(key, {"note": "x"})
    scene.server.pexpire(key, 60_000)


PLANTED: dict[Callable[[Scene], None], set[Damage]] = {
    count_too_many: {Damage.HELD_COUNT},
    count_too_few: {Damage.HELD_COUNT},
    lose_an_attempt: {Damage.HELD_COUNT},
    lose_a_seat: {Damage.ATTEMPT_WITHOUT_SEAT},
    lose_an_owner: {Damage.SEAT_WITHOUT_NODE},
    lose_a_name: {Damage.SEAT_WITHOUT_NODE},
    lose_a_victim: {Damage.HEIR_WITHOUT_VICTIM},
    end_the_job: {Damage.ATTEMPT_WITHOUT_JOB},
    lose_the_record: {
        Damage.OPEN_WITHOUT_RECORD,
        Damage.ATTEMPT_WITHOUT_JOB,
        Damage.UTTERANCE_WITHOUT_JOB,
    },
    lose_the_list: {Damage.RECORD_NOT_LISTED},
    list_a_strange_job: {Damage.OPEN_WITHOUT_RECORD},
    forget_the_node: {Damage.SEAT_WITHOUT_ENTRY},
    lose_an_entry: {Damage.SEAT_WITHOUT_ENTRY, Damage.DIRECTORY_COUNT},
    miscount_the_members: {Damage.DIRECTORY_COUNT},
    lose_a_member: {Damage.DIRECTORY_COUNT},
    live_for_ever: {Damage.NO_TIME_TO_LIVE},
    leave_a_key: {Damage.UNDECLARED_KEY},
    leave_keys_with_strange_numbers: {Damage.UNDECLARED_KEY},
    leave_an_inbox: {Damage.INBOX_WITHOUT_INSTANCE},
    leave_an_inbox_with_a_strange_name: {Damage.INBOX_WITHOUT_INSTANCE},
    spoil_an_attempt: {Damage.UNREADABLE},
    spoil_the_waiters: {Damage.UNREADABLE},
    spoil_the_attempt_of_a_job: {Damage.UNREADABLE, Damage.HELD_COUNT},
    spoil_a_board: {Damage.UNREADABLE},
    spoil_an_owner: {Damage.SEAT_WITHOUT_NODE},
    leave_a_short_record: {Damage.UNREADABLE},
    leave_a_strange_record: {Damage.UNREADABLE},
    leave_a_record_under_another_request: {Damage.UNREADABLE},
    spoil_the_record: {Damage.UNREADABLE},
    list_garbage: {Damage.UNREADABLE},
    spoil_the_time_of_a_job: {Damage.UNREADABLE},
    list_jobs_in_a_string: {Damage.UNREADABLE},
    leave_a_strange_session: {Damage.UNREADABLE},
    leave_a_session_without_a_header: {Damage.UNREADABLE},
    spoil_an_utterance: {Damage.UNREADABLE},
    spoil_an_entry: {Damage.UNREADABLE},
    spoil_the_entry_of_a_node: {Damage.UNREADABLE},
    spoil_a_count: {Damage.UNREADABLE},
    keep_the_directory_in_strings: {Damage.UNREADABLE, Damage.SEAT_WITHOUT_ENTRY},
    keep_a_cell_in_other_types: {Damage.UNREADABLE},
}


def test_every_kind_of_damage_is_planted_by_some_test() -> None:
    assert {damage for found in PLANTED.values() for damage in found} == set(Damage)


def test_a_sound_cluster_has_no_findings(scene: Scene) -> None:
    assert scene.look() == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_damage_is_found_and_repaired(scene: Scene, plant: Callable[[Scene], None]) -> None:
    plant(scene)
    findings = scene.look()
    assert {finding.damage for finding in findings} == PLANTED[plant]
    scene.repair([finding for finding in findings if finding.damage in REPAIRABLE])
    # A repair may uncover what hid behind the damage; that is repaired the next time.
    for _ in range(2):
        left = scene.look()
        scene.repair([finding for finding in left if finding.damage in REPAIRABLE])
    assert {finding.damage for finding in scene.look()} <= set(Damage) - REPAIRABLE


def test_one_thing_that_cannot_be_read_hides_nothing_else(scene: Scene) -> None:
    count_too_many(scene)
    spoil_an_attempt(scene)
    list_garbage(scene)
    list_jobs_in_a_string(scene)
    leave_a_short_record(scene)
    spoil_an_entry(scene)
    live_for_ever(scene)
    report = json.loads(scene.command("--json").stdout)
    damages = [each["damage"] for each in report["findings"]]
    assert sorted(damages) == ["held_count", "no_time_to_live", *["unreadable"] * 5]
    repaired = scene.command("--repair")
    assert repaired.exit_code == 0, repaired.stdout
    assert scene.command().exit_code == 0


def test_what_was_written_anew_is_not_removed(scene: Scene) -> None:
    spoil_an_utterance(scene)
    spoil_the_time_of_a_job(scene)
    leave_a_short_record(scene)
    leave_a_strange_session(scene)
    list_jobs_in_a_string(scene)
    leave_an_inbox(scene)
    findings = scene.look()
    assert len(findings) == 6
    scene.server.hset(scene.key(f"{scene.shard}:z:{scene.held.session_id}"), "u7 es", "new")
    scene.server.hset(scene.key(f"{scene.shard}:open"), scene.job.job_id, struct.pack("<d", 0))
    scene.server.set(scene.key("{s03}:r:x"), "new")
    scene.server.hset(scene.key("{s03}:z:x"), "h", "new")
    scene.server.delete(scene.key("{s01}:open"))
    scene.server.hset(scene.key("{s01}:open"), "new", "new")
    scene.server.hset(scene.key("{i:nobody}:record"), "standing", "up")
    assert scene.repair(findings) == [False] * 6


def test_a_sweep_passes_over_what_cannot_be_read_and_says_so_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    bench = scene.bench
    shard = f"{{s{scene.job.job_id[2:4]}}}"
    scene.server.hset(scene.key(f"{shard}:open"), "garbage", "xx")
    broken = JobId(scene.job.job_id[:4] + "0" * 16 + scene.job.job_id[20:])
    scene.server.hset(scene.key(f"{shard}:open"), broken, struct.pack("<d", 0))
    request = request_in(broken)
    scene.server.set(scene.key(f"{shard}:r:{request}"), "Oxx", px=60_000)
    # The job's own entry is due.
    scene.server.hset(scene.key(f"{shard}:open"), scene.job.job_id, struct.pack("<d", 0))
    scene.server.hset(scene.key("{c0}:a"), "a-zzz", "xx")
    mine = int(scene.job.job_id[2:4], 16)
    other = (mine + 1) % JOB_SHARDS
    scene.server.set(scene.key(f"{{s{other:02x}}}:open"), "foo")
    for _ in range(2):
        due = bench(bench.ledger.due([other, mine], 10))
        assert [job.job_id for job in due] == [scene.job.job_id]
        bench(bench.ledger.due_attempts(0, 10))
    said = [record.message for record in caplog.records]
    assert (said.count("entry_unreadable"), said.count("shards_not_swept")) == (3, 1)


def test_a_finding_that_is_sound_by_now_is_not_repaired(scene: Scene) -> None:
    count_too_many(scene)
    findings = scene.look()
    assert scene.repair(findings) == [True]
    assert scene.repair(findings) == [False]
    assert scene.bench.held(scene.node) == 1


def test_a_seat_that_was_taken_anew_is_not_cleared(scene: Scene) -> None:
    lose_an_owner(scene)
    findings = scene.look()
    scene.bench.join("n-1", slots=3, running=(scene.attempt.running,))
    assert scene.repair(findings) == [False]
    assert scene.look() == []


def test_what_was_on_its_way_is_not_confirmed(scene: Scene) -> None:
    end_the_job(scene)
    first = scene.look()
    scene.bench.finish(scene.attempt, due_ms=0)
    assert first != []
    assert confirmed(first, scene.look()) == ()


def test_a_slot_that_was_not_counted_is_not_granted_again_after_the_repair(scene: Scene) -> None:
    count_too_few(scene)
    scene.repair(scene.look())
    for _ in range(2):
        scene.bench.dispatch(scene.node)
    assert scene.bench.try_reserve(scene.node) == r.Full()


async def be_an_instance(scene: Scene) -> None:
    """Everything that an instance writes beside the ledger."""
    terms = cluster.ClusterTerms(max_deliveries=0, reclaim_idle_ms=0)
    peers = cluster.RedisPeers(
        scene.url, HERE, Random(3), terms, key_prefix=scene.prefix, timeout_ms=PATIENT_MS
    )
    await peers.join(cluster.Card("http://here", 0))
    await peers.post(HERE, cluster.EndedNote(scene.job.job_id))
    await peers.take(1)
    assert isinstance(handed := await peers.take(1), cluster.Handed)
    assert handed.buried == 1
    await peers.count_in_window("n-1", 1, 60_000)
    for what in cluster.Limited:
        await peers.hold(what, TENANT, used=1, wanted=1, limit=1, ttl_ms=60_000)
    await peers.close()


def test_a_run_touches_no_key_that_is_not_declared(scene: Scene) -> None:
    live_a_little(scene.bench, Random(5))
    scene.bench(be_an_instance(scene))
    scene.bench(scene.bench.ledger.stop())
    kinds = {family_of(key, scene.prefix, families()) for key in scene.server.scan_iter()}
    assert kinds - {None} >= {each for each in cluster.KEY_FAMILIES if each.kind != "stream"}
    assert Damage.UNDECLARED_KEY not in {finding.damage for finding in scene.look()}


def test_all_servers_of_a_redis_cluster_are_looked_through(scene_on_a_cluster: Scene) -> None:
    scene = scene_on_a_cluster
    for _ in range(20):
        scene.bench.open_job()
    scene.bench(sweep(scene.bench))
    assert scene.look() == []
    keys = list(scene.server.scan_iter(scene.key("*:r:*"), target_nodes="primaries"))
    for key in keys:
        scene.server.persist(key)
    count_too_few(scene)
    leave_an_inbox_with_a_strange_name(scene)
    list_jobs_in_a_string(scene)
    findings = scene.look()
    assert {finding.damage for finding in findings} == {
        Damage.NO_TIME_TO_LIVE,
        Damage.HELD_COUNT,
        Damage.INBOX_WITHOUT_INSTANCE,
        Damage.UNREADABLE,
    }
    assert len(findings) == len(keys) + 3
    assert all(scene.repair(findings))
    assert scene.look() == []


def test_the_command_shows_what_does_not_fit_and_repairs_it(scene: Scene) -> None:
    assert scene.command().exit_code == 0
    assert "Everything fits together." in scene.command().stdout
    count_too_many(scene)
    shown = scene.command("--json")
    assert shown.exit_code == 1
    report = json.loads(shown.stdout)
    assert [each["damage"] for each in report["findings"]] == ["held_count"]
    assert not report["ok"]
    assert scene.command("--repair").exit_code == 0
    assert scene.command().exit_code == 0


def test_the_command_says_when_redis_does_not_answer(scene: Scene) -> None:
    scene.url = "redis://127.0.0.1:1"
    refused = scene.command()
    assert refused.exit_code != 0
