"""Looking through all keys of a live Redis, page by page, and putting right what does not fit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from random import Random
from struct import Struct
from typing import ClassVar

from dragoman.ids import AttemptId, JobId, NodeId, request_in, shard_in
from dragoman.live.ledger import Sender
from dragoman.live.protocol import ErrorInfo
from dragoman.live.shared import check
from dragoman.live.shared.check import Damage, LedgerFinding
from dragoman.live.shared.redis import cell_packing, packing
from dragoman.live.shared.redis.cells import RedisCells
from dragoman.live.shared.redis.server import (
    CELL,
    DIRECTORY,
    SHARD,
    Answer,
    FunctionServer,
    FunctionTag,
)
from dragoman.redis_servers import (
    KeyFamily,
    Plain,
    RedisPipeline,
    family_of,
    open_servers,
    versioned,
)

_PAGE = 500
_TOMBSTONE_MS = 60_000
"""Longer than any late ask for a slot is on its way."""

_GRACE_MS = 5_000
_LIFE_MS = 24 * 3_600_000
"""For a key without a time to live; whatever uses it gives it another."""

_FOR_EVER = -1
_LARGEST_CELL = 250

_INDEX = Struct("<B")
_CLEAR = Struct("<BII8s")
_MS = Struct("<I")

_NO_JOB = ErrorInfo(code="INTERNAL_ERROR", message="No job wants the attempt any more.")


class RedisCheck:
    """Reads what a cluster keeps without changing it, and repairs what a caller says.

    What it holds in memory is a page of keys or fields, and for each cell its seats. Each repair is
    one step that looks again first: it changes nothing that is sound by then.
    """

    def __init__(
        self,
        url: str,
        families: tuple[KeyFamily, ...],
        *,
        cluster: bool = False,
        key_prefix: str = "dragoman",
        timeout_ms: int = 1_000,
    ) -> None:
        self._caller = RedisPipeline(open_servers(url, timeout_ms, cluster=cluster), timeout_ms)
        self._server = FunctionServer(self._caller, Random(), key_prefix=key_prefix)
        self._families = families
        self._prefix = key_prefix
        self._cells = RedisCells(self._server, cell_size=_LARGEST_CELL, cell_ttl_ms=_LIFE_MS)
        directory = FunctionTag(key_prefix, "directory", DIRECTORY)
        self._directory = directory
        self._entries, self._members, self._counts = (
            directory.key(name) for name in ("entries", "members", "counts")
        )

    async def close(self) -> None:
        await self._caller.close()

    async def look(self) -> list[LedgerFinding]:
        """Everything that does not fit right now; some of it may only be on its way."""
        findings: list[LedgerFinding] = []
        cells: set[int] = set()
        async for keys in self._all_keys():
            findings += await self._look_at_keys(keys)
            cells |= {number for key in keys if (number := self._cell_of(key)) is not None}
        for cell in sorted(cells):
            findings += await self._look_at_cell(cell)
        findings += await self._look_at_directory()
        return findings

    # --- keys -----------------------------------------------------------------------------------

    async def _all_keys(self) -> AsyncIterator[list[bytes]]:
        wanted = f"{versioned(self._prefix)}:*"
        for lane in await self._caller.masters():
            cursor = b"0"
            while True:
                command = Plain(("SCAN", cursor, "MATCH", wanted, "COUNT", _PAGE))
                cursor, keys = await self._caller.ask_master(lane, "SCAN", command)
                if keys:
                    yield keys
                if cursor == b"0":
                    break

    async def _look_at_keys(self, keys: Sequence[bytes]) -> list[LedgerFinding]:
        findings: list[LedgerFinding] = []
        lives = await asyncio.gather(*(self._plain_on(key, "PTTL", key) for key in keys))
        looks: list[Awaitable[list[LedgerFinding]]] = []
        for key, life_ms in zip(keys, lives, strict=True):
            family, shown = family_of(key, self._prefix, self._families), _shown(key)
            if family is None:
                found = "no such key is kept by this version of Dragoman"
                findings.append(
                    LedgerFinding(Damage.UNDECLARED_KEY, f"key {shown}", found, name=shown)
                )
                continue
            if life_ms == _FOR_EVER and not family.for_ever:
                found = "it has no time to live"
                findings.append(
                    LedgerFinding(Damage.NO_TIME_TO_LIVE, f"key {shown}", found, name=shown)
                )
            if family.tag.startswith("s<"):
                looks += self._looks_at_shard_key(key, family.name)
        for some in await asyncio.gather(*looks):
            findings += some
        return findings

    def _cell_of(self, key: bytes) -> int | None:
        family = family_of(key, self._prefix, self._families)
        if family is None or family.tag != "c<number>":
            return None
        return int(_tag_in(key)[1:])

    def _plain_on(self, key: bytes, *words: bytes | str | int) -> Awaitable[Answer]:
        """A plain command on the server that holds a key."""
        tag = key.partition(b"}")[0].decode("utf-8", "surrogateescape") + "}"
        return self._caller.ask(tag, str(words[0]), Plain(words))

    # --- shards ---------------------------------------------------------------------------------

    def _looks_at_shard_key(
        self, key: bytes, name: str
    ) -> Iterator[Awaitable[list[LedgerFinding]]]:
        if name == "open":
            yield self._look_at_listed(key)
        elif name == "r:<request>":
            yield self._look_at_record(key)
        elif name == "z:<session_id>":
            yield self._look_at_session(key)

    async def _look_at_listed(self, key: bytes) -> list[LedgerFinding]:
        """Jobs that are listed as open."""
        findings: list[LedgerFinding] = []
        async for fields in self._pages(key):
            job_ids = [JobId(field.decode()) for field in fields[::2]]
            states = await asyncio.gather(*(self._job(job_id) for job_id in job_ids))
            for job_id, state in zip(job_ids, states, strict=True):
                found = check.check_listed(job_id, is_open=state is not None and state.is_open)
                findings += [found] if found is not None else []
        return findings

    async def _look_at_record(self, key: bytes) -> list[LedgerFinding]:
        head = await self._plain_on(key, "GETRANGE", key, 0, packing.MOST_HEAD_BYTES)
        if head[:1] != packing.OPEN:
            return []
        job_id = packing.read_head(head).job_id
        listed = await self._plain_on(key, "HEXISTS", self._shard(job_id).key("open"), job_id)
        found = check.check_record(job_id, is_listed=bool(listed))
        return [found] if found is not None else []

    async def _look_at_session(self, key: bytes) -> list[LedgerFinding]:
        session_id = key.rpartition(b":z:")[2].decode()
        findings: list[LedgerFinding] = []
        async for fields in self._pages(key):
            for field, value in zip(fields[::2], fields[1::2], strict=True):
                if field[:1] != b"u" or value[:1] != packing.OPEN:
                    continue
                job_id = JobId(value[1:].decode())
                if await self._job(job_id) is None:
                    index, _, target = field[1:].decode().partition(" ")
                    findings.append(check.check_utterance(session_id, int(index), target, job_id))
        return findings

    async def _job(self, job_id: JobId) -> packing.JobHead | None:
        """What a job's record begins with; None when there is none."""
        request = request_in(job_id)
        if request is None or shard_in(job_id) is None:
            return None
        record = self._shard(job_id).key(f"r:{request}")
        for key in (record, record + b":" + job_id.encode()):
            head = await self._plain_on(key, "GETRANGE", key, 0, packing.MOST_HEAD_BYTES)
            if head and (found := packing.read_head(head)).job_id == job_id:
                return found
        return None

    def _shard(self, job_id: JobId) -> FunctionTag:
        return FunctionTag(self._prefix, f"s{shard_in(job_id):02x}", SHARD)

    # --- cells ----------------------------------------------------------------------------------

    async def _look_at_cell(self, cell: int) -> list[LedgerFinding]:
        seats, _ = await self._seats(cell)
        attempts_key = self._cell_keys(cell)[1]
        comparison = check.CellCheck(cell, seats)
        findings: list[LedgerFinding] = []
        seen: set[str] = set()
        async for page in self._pages(attempts_key):
            attempts = [
                cell_packing.attempt_facts(field, packed)
                for field, packed in zip(page[::2], page[1::2], strict=True)
                if field != b"w"
            ]
            fresh = [each for each in attempts if each.field not in seen]
            seen |= {each.field for each in fresh}
            for attempt in fresh:
                comparison.add(attempt)
            findings += await self._look_at_jobs(cell, fresh)
        for seat in seats:
            if seat.node_id is not None:
                entry = await self._entry(seat.node_id)
                found = check.check_seat(cell, seat, entry)
                findings += [found] if found is not None else []
        return [*comparison.findings(), *findings]

    async def _seats(self, cell: int) -> tuple[list[check.SeatFacts], dict[bytes, bytes]]:
        """The seats of a board, and what the cell's other key says of nodes and seats."""
        board_key, _, seats_key = self._cell_keys(cell)
        board, fields = await asyncio.gather(
            self._plain_on(board_key, "GET", board_key),
            self._plain_on(seats_key, "HGETALL", seats_key),
        )
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        return list(cell_packing.seat_facts(board or b"", named)), named

    async def _look_at_jobs(
        self, cell: int, attempts: Sequence[check.AttemptFacts]
    ) -> list[LedgerFinding]:
        held = [each for each in attempts if each.holds_slot and not each.is_cancelling]
        jobs = await asyncio.gather(*(self._job(each.job_id) for each in held))
        findings = []
        for attempt, job in zip(held, jobs, strict=True):
            current = job.attempt_id if job is not None else None
            ended = job is not None and not job.is_open
            found = check.check_attempt(cell, attempt, current, ended=ended)
            findings += [found] if found is not None else []
        return findings

    def _cell_keys(self, cell: int) -> tuple[bytes, bytes, bytes]:
        tag = FunctionTag(self._prefix, f"c{cell}", CELL)
        return tag.key("board"), tag.key("a"), tag.key("seats")

    # --- the directory --------------------------------------------------------------------------

    async def _look_at_directory(self) -> list[LedgerFinding]:
        findings: list[LedgerFinding] = []
        members: Counter[int] = Counter()
        async for fields in self._pages(self._entries):
            node_ids = [NodeId(field.decode()) for field in fields[::2]]
            scores = await self._plain_on(self._members, "ZMSCORE", self._members, *node_ids)
            for node_id, packed, score in zip(node_ids, fields[1::2], scores, strict=True):
                cell = cell_packing.read_directory_entry(node_id, packed).cell
                member = None if score is None else int(score)
                found = check.check_member(node_id, cell, member)
                findings += [found] if found is not None else []
        async for fields in self._pages(self._members, "ZSCAN"):
            for name, score in zip(fields[::2], fields[1::2], strict=True):
                members[int(score)] += 1
                if await self._plain_on(self._entries, "HEXISTS", self._entries, name) == 0:
                    found = check.check_member(NodeId(name.decode()), None, int(score))
                    findings += [found] if found is not None else []
        counts = await self._plain_on(self._counts, "HGETALL", self._counts)
        counted = {int(cell): int(n) for cell, n in zip(counts[::2], counts[1::2], strict=True)}
        for cell in sorted(members.keys() | counted.keys()):
            found = check.check_count(cell, counted.get(cell, 0), members[cell])
            findings += [found] if found is not None else []
        return findings

    async def _entry(self, node_id: NodeId) -> int | None:
        packed = await self._plain_on(self._entries, "HGET", self._entries, node_id)
        return cell_packing.read_directory_entry(node_id, packed).cell if packed else None

    async def _pages(self, key: bytes, command: str = "HSCAN") -> AsyncIterator[list[bytes]]:
        cursor = b"0"
        while True:
            cursor, fields = await self._plain_on(key, command, key, cursor, "COUNT", _PAGE)
            if fields:
                yield fields
            if cursor == b"0":
                return

    # --- repairs --------------------------------------------------------------------------------

    async def repair(self, finding: LedgerFinding) -> bool:
        """Put it right, if it still is as it was found; False when it was sound by then."""
        mend = self._repairs.get(finding.damage)
        return mend is not None and await mend(self, finding)

    async def _recount(self, finding: LedgerFinding) -> bool:
        terms = _INDEX.pack(int(finding.name))
        answer = await self._call_cell(finding.cell, "recount", terms)
        return bool(answer) and answer[0] != answer[1]

    async def _clear_seat(self, finding: LedgerFinding) -> bool:
        seats, named = await self._seats(finding.cell)
        for seat in seats:
            if str(seat.index) == finding.name and seat.node_id is None:
                terms = _CLEAR.pack(seat.index, _TOMBSTONE_MS, seat.epoch, seat.node)
                here = str(seat.index).encode()
                leading = [field for field, at in named.items() if field[:1] == b"n" and at == here]
                return bool(await self._call_cell(finding.cell, "clear_seat", terms, *leading))
        return False

    async def _mend_attempt(self, finding: LedgerFinding) -> bool:
        terms = _MS.pack(_TOMBSTONE_MS)
        return bool(await self._call_cell(finding.cell, "mend_attempt", terms, finding.name))

    async def _cancel(self, finding: LedgerFinding) -> bool:
        """Its node is asked to report by the sweep, and its next heartbeat decides."""
        name = AttemptId(finding.name)
        await self._cells.cancel(finding.cell, name, _NO_JOB, grace_ms=_GRACE_MS)
        return True

    async def _remove_seat(self, finding: LedgerFinding) -> bool:
        record = await self._cells.read_cell(finding.cell)
        for seat in record.seats if record is not None else ():
            if seat.node_id == finding.name:
                sender = Sender(seat.node_id, seat.owner.epoch)
                await self._cells.remove(finding.cell, sender)
                return True
        return False

    async def _mend_directory(self, finding: LedgerFinding) -> bool:
        keys = (self._entries, self._members, self._counts)
        if finding.cell >= 0:
            await self._server.call(self._directory, "mend_count", keys, b"", finding.cell)
        else:
            await self._server.call(self._directory, "mend_member", keys, b"", finding.name)
        return True

    async def _strike_listed(self, finding: LedgerFinding) -> bool:
        job_id = JobId(finding.name)
        tag = self._shard(job_id)
        keys = (tag.key("open"), tag.key(f"r:{request_in(job_id)}"))
        return not await self._server.call(tag, "due", keys, b"", job_id)

    async def _list(self, finding: LedgerFinding) -> bool:
        job_id = JobId(finding.name)
        tag = self._shard(job_id)
        keys = (tag.key("open"), tag.key(f"r:{request_in(job_id)}"))
        return bool(await self._server.call(tag, "list_open", keys, b"", job_id))

    async def _give_life(self, finding: LedgerFinding) -> bool:
        key = finding.name.encode("utf-8", "surrogateescape")
        return bool(await self._plain_on(key, "PEXPIRE", key, _LIFE_MS, "NX"))

    def _call_cell(
        self, cell: int, name: str, terms: bytes, *arguments: bytes | str
    ) -> Awaitable[Answer]:
        tag = FunctionTag(self._prefix, f"c{cell}", CELL)
        return self._server.call(tag, name, self._cell_keys(cell), terms, *arguments)

    _repairs: ClassVar[dict[Damage, Callable[[RedisCheck, LedgerFinding], Awaitable[bool]]]] = {
        Damage.HELD_COUNT: _recount,
        Damage.SEAT_WITHOUT_NODE: _clear_seat,
        Damage.ATTEMPT_WITHOUT_SEAT: _mend_attempt,
        Damage.HEIR_WITHOUT_VICTIM: _mend_attempt,
        Damage.ATTEMPT_WITHOUT_JOB: _cancel,
        Damage.SEAT_WITHOUT_ENTRY: _remove_seat,
        Damage.DIRECTORY_COUNT: _mend_directory,
        Damage.OPEN_WITHOUT_RECORD: _strike_listed,
        Damage.RECORD_NOT_LISTED: _list,
        Damage.NO_TIME_TO_LIVE: _give_life,
    }


def _tag_in(key: bytes) -> str:
    return key.partition(b"{")[2].partition(b"}")[0].decode()


def _shown(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")
