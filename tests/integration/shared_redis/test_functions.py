"""The functions are loaded when they are missed, side by side with those of other versions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from redis.crc import key_slot
from tests.integration.shared_redis.conftest import OpenBench
from tests.servers import PATIENT_MS, RedisCluster, RedisProcess

from dragoman.errors import CannotStart, DependencyDown, InternalError
from dragoman.live.protocol import Outcome
from dragoman.live.shared import records as r
from dragoman.redis_servers import FunctionCall, FunctionLibrary, RedisPipeline, Reply, open_servers

pytestmark = pytest.mark.redis

JOBS = 10

LUA = "register('answer', function() return {answer} end)"


def ask(
    server: RedisProcess, *libraries: FunctionLibrary, url: str = ""
) -> list[Reply | BaseException]:
    """What each library's `answer` says, asked at the same time over one connection."""
    calls = [each.call("answer", ("{t}",), ()) for each in libraries]
    return ask_for(server, calls, url=url)


def ask_for(
    server: RedisProcess, calls: Sequence[FunctionCall], *, url: str = ""
) -> list[Reply | BaseException]:
    """What calls are answered, sent at the same time over one connection to a single server."""

    async def asked() -> list[Reply | BaseException]:
        caller = RedisPipeline(
            open_servers(url or server.url, PATIENT_MS, cluster=False), PATIENT_MS
        )
        try:
            return list(
                await asyncio.gather(
                    *(caller.ask("{t}", "answer", call) for call in calls), return_exceptions=True
                )
            )
        finally:
            await caller.close()

    return asyncio.run(asked())


def loads(server: RedisProcess) -> int:
    """How often a library was loaded."""
    return count_of(server, "function|load")


def count_of(server: RedisProcess, command: str) -> int:
    """How often a command was carried out."""
    stats = server.command("INFO", "commandstats").splitlines()
    found = [line for line in stats if line.startswith(f"cmdstat_{command}:")]
    return int(found[0].partition("calls=")[2].partition(",")[0]) if found else 0


def test_two_versions_of_a_library_run_side_by_side(own_redis: RedisProcess) -> None:
    older, newer = (
        FunctionLibrary.of("test", [LUA.replace("{answer}", text)]) for text in ("1", "2")
    )
    assert ask(own_redis, older, newer, older) == [1, 2, 1]


def test_calls_that_are_sent_together_load_their_library_once(own_redis: RedisProcess) -> None:
    library = FunctionLibrary.of("test", [LUA.replace("{answer}", "1")])
    assert ask(own_redis, *[library] * 50) == [1] * 50
    assert loads(own_redis) == 1


def test_functions_that_were_flushed_are_loaded_again(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    held, node = bench.begin(), bench.join("n-1", slots=2)
    before = loads(own_redis)
    own_redis.command("FUNCTION", "FLUSH")
    opening = bench.utterance(held, 0)
    opened, granted = bench.together(
        bench.ledger.open(opening), bench.ledger.reserve(bench.ask(node))
    )
    assert isinstance(opened, r.Opened)
    assert isinstance(granted, r.Granted)
    # Those of shards and those of cells.
    assert loads(own_redis) == before + 2


def test_functions_that_are_flushed_again_and_again_are_missed_by_no_job(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node = bench.join("n-1", slots=JOBS)

    async def one(job: r.NewJob) -> tuple[object, object]:
        ask = bench.ask(node, attempt_id=job.attempt_id, job_id=job.job_id)
        await asyncio.gather(bench.ledger.open(bench.opening(job)), bench.ledger.reserve(ask))
        return await asyncio.gather(
            bench.ledger.finish(0, job.attempt_id, node.sender, r.Finish(Outcome.SUCCESS)),
            bench.ledger.close(bench.closing(job)),
        )

    async def flush() -> None:
        while True:
            await asyncio.to_thread(own_redis.command, "FUNCTION", "FLUSH")

    async def live() -> list[tuple[object, object]]:
        flushing = asyncio.create_task(flush())
        answers = []
        try:
            for _ in range(20):
                jobs = [bench.new_job() for _ in range(JOBS)]
                answers += await asyncio.gather(*map(one, jobs))
                await asyncio.sleep(0.01)
        finally:
            flushing.cancel()
            await asyncio.gather(flushing, return_exceptions=True)
        return answers

    before = loads(own_redis)
    for freed, closed in bench(live()):
        assert isinstance(freed, r.FreedSlot)
        assert isinstance(closed, r.Closed)
    assert loads(own_redis) > before + 2
    assert bench.held(node) == 0


def test_a_library_that_is_wrong_is_our_fault(own_redis: RedisProcess) -> None:
    [answer] = ask(
        own_redis, FunctionLibrary.of("test", ["this is no Lua\nregister('answer', nil)"])
    )
    assert isinstance(answer, InternalError)


def test_a_primary_that_became_a_replica_is_down_and_not_wrong(own_redis: RedisProcess) -> None:
    """It does not know the functions, and may not load them: a failover is under way."""
    own_redis.command("REPLICAOF", "127.0.0.1", "1")
    [answer] = ask(own_redis, FunctionLibrary.of("test", [LUA.replace("{answer}", "1")]))
    assert isinstance(answer, DependencyDown)
    assert "READONLY" in answer.message


def test_a_function_that_fails_is_our_fault_and_spares_the_others(
    own_redis: RedisProcess,
) -> None:
    broken = FunctionLibrary.of("test", ["register('answer', function() return missing.field end)"])
    fine = FunctionLibrary.of("test", [LUA.replace("{answer}", "1")])
    answers = ask(own_redis, fine, broken, fine)
    assert (answers[0], answers[2]) == (1, 1)
    assert isinstance(answers[1], InternalError)


def test_a_user_who_may_not_load_functions_is_told_what_is_missing(
    own_redis: RedisProcess,
) -> None:
    own_redis.command("ACL", "SETUSER", "poor", "on", ">word", "~*", "+@all", "-function|load")
    library = FunctionLibrary.of("test", [LUA.replace("{answer}", "1")])
    url = own_redis.url.replace("redis://", "redis://poor:word@")
    [answer] = ask(own_redis, library, url=url)
    assert isinstance(answer, DependencyDown)
    assert "FUNCTION LOAD" in answer.message
    # Once another user has loaded them, they may be called.
    assert ask(own_redis, library) == [1]
    assert ask(own_redis, library, url=url) == [1]


def test_a_ledger_whose_user_may_not_load_functions_says_so_at_its_start(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    own_redis.command("ACL", "SETUSER", "poor", "on", ">word", "~*", "+@all", "-function|load")
    poor = open_bench(own_redis.url.replace("redis://", "redis://poor:word@"))
    with pytest.raises(CannotStart, match="FUNCTION LOAD and FCALL"):
        poor(poor.ledger.start())
    # Once another user has loaded them, it starts.
    rich = open_bench(own_redis.url)
    rich(rich.ledger.start())
    poor(poor.ledger.start())


ECHO = """
register('answer', function(keys, args, now) return {keys[1], args[1], now and 1 or 0} end)
register('broken', function() return missing.field end)
register('refused', function(keys, args) return redis.call('INCR', keys[1]) end, 'allow-oom')
register('nothing', function() return nil end)
"""


def test_calls_that_are_sent_together_are_run_by_one_call(own_redis: RedisProcess) -> None:
    library = FunctionLibrary.of("test", [ECHO])

    def call(name: str, key: str, word: bytes) -> FunctionCall:
        return library.call(name, (key,), (word,))

    calls = [call("answer", "{a}:1", b"first"), call("answer", "{a}:1", b"second")]
    calls += [call("broken", "{b}:1", b""), call("nothing", "{b}:1", b"")]
    calls += [call("answer", "{b}:2", b"third"), call("refused", "{c}:text", b"")]
    calls += [call("refused", "{c}:number", b"")]
    own_redis.command("SET", "{c}:text", "text")
    [_] = ask_for(own_redis, calls[:1])
    before = count_of(own_redis, "fcall")
    answers = ask_for(own_redis, calls)
    # One for those that may run without memory, one for the others.
    assert count_of(own_redis, "fcall") - before == 2
    assert answers[:2] == [[b"{a}:1", b"first", 1], [b"{a}:1", b"second", 1]]
    assert isinstance(answers[2], InternalError)
    assert answers[3] is None
    assert answers[4] == [b"{b}:2", b"third", 1]
    assert isinstance(answers[5], DependencyDown)
    assert "not an integer" in answers[5].message
    assert answers[6] == 1


def test_a_cluster_behind_one_address_is_asked_for_one_tag_at_a_time(
    redis_cluster: RedisCluster,
) -> None:
    """A proxy, or a Cluster of one, refuses a call whose keys lie in several places."""
    library = FunctionLibrary.of("test", [ECHO])
    # The first of three servers has the first third of the slots.
    tags = [tag for tag in map("{{t{}}}".format, range(60)) if key_slot(tag.encode()) < 5461]
    calls = [library.call("answer", (f"{tag}:1",), (tag.encode(),)) for tag in tags]
    answers = ask_for(redis_cluster.nodes[0], calls)
    assert answers == [[f"{tag}:1".encode(), tag.encode(), 0] for tag in tags]


def test_what_frees_slots_runs_beside_what_the_full_server_refuses(
    own_redis: RedisProcess,
) -> None:
    writes = "redis.call('INCR', keys[1]) return 1 end"
    text = f"""
register('opens', function(keys) {writes})
register('frees', function(keys) {writes}, 'allow-oom')
"""
    library = FunctionLibrary.of("test", [text])
    names = ["opens", "frees", "opens", "frees"]
    calls = [library.call(name, ("{t}",), ()) for name in names]
    assert ask_for(own_redis, calls) == [1, 1, 1, 1]
    own_redis.command("CONFIG", "SET", "maxmemory", "1")
    opened, freed, opened_too, freed_too = ask_for(own_redis, calls)
    assert (freed, freed_too) == (1, 1)
    assert isinstance(opened, DependencyDown)
    assert isinstance(opened_too, DependencyDown)
    assert "memory" in opened.message
