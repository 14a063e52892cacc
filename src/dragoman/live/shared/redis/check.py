"""Looking through all keys of a live Redis, page by page, and putting right what does not fit."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from struct import Struct
from typing import ClassVar

from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, JobId, NodeId, SessionId, place_in, request_in, shard_in
from dragoman.live.ledger import Sender
from dragoman.live.protocol import ErrorInfo
from dragoman.live.shared import check
from dragoman.live.shared import records as r
from dragoman.live.shared.check import Damage, LedgerFinding
from dragoman.live.shared.redis import cell_packing, packing
from dragoman.live.shared.redis.cells import RedisCells
from dragoman.live.shared.redis.server import (
    CELL,
    CHECK,
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
_TIME = Struct("<d")

_KINDS = {"zset": "sorted set"}
"""What families call Redis's types, where they call them otherwise."""
_NOTHING = "none"
"""The type of a key that is not there."""

_NUMBERED = {"c<number>": re.compile(r"c\d{1,6}"), "s<00..ff>": re.compile("s[0-9a-f]{2}")}
"""Tags with a number."""

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
        """Everything that does not fit right now; some of it may only be on its way.

        What cannot be read comes first: repairs of other things stumble over it.
        """
        findings: list[LedgerFinding] = []
        cells: set[int] = set()
        async for keys in self._all_keys():
            findings += await self._look_at_keys(keys)
            cells |= {number for key in keys if (number := self._cell_of(key)) is not None}
        for cell in sorted(cells):
            findings += await self._look_at_cell(cell)
        findings += await self._look_at_directory()
        return sorted(findings, key=lambda each: each.damage is not Damage.UNREADABLE)

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
        kinds = await asyncio.gather(*(self._plain_on(key, "TYPE", key) for key in keys))
        for key, life_ms, kind in zip(keys, lives, kinds, strict=True):
            family, shown = self._family_of(key), check.shown(key)
            if family is None:
                found = "no such key is kept by this version of Dragoman"
                findings.append(
                    LedgerFinding(Damage.UNDECLARED_KEY, f"key {shown}", found, name=_name(key))
                )
                continue
            if life_ms == _FOR_EVER and not family.for_ever:
                found = "it has no time to live"
                findings.append(
                    LedgerFinding(Damage.NO_TIME_TO_LIVE, f"key {shown}", found, name=_name(key))
                )
            has = _KINDS.get(kind.decode(), kind.decode())
            if has not in (family.kind, _NOTHING):
                findings.append(check.wrong_kind(key, kind.decode(), family.kind))
            elif family.tag.startswith("s<"):
                looks += self._looks_at_shard_key(key, family.name)
            elif family.name == "inbox":
                looks.append(self._look_at_inbox(key))
        for some in await asyncio.gather(*looks):
            findings += some
        return findings

    async def _look_at_inbox(self, key: bytes) -> list[LedgerFinding]:
        record = key.removesuffix(b"inbox") + b"record"
        is_there = await self._plain_on(record, "EXISTS", record)
        return [] if is_there else [check.inbox_alone(key, record)]

    def _family_of(self, key: bytes) -> KeyFamily | None:
        """The family that a key belongs to, if its number is one."""
        family = family_of(key, self._prefix, self._families)
        if family is not None and family.tag in _NUMBERED:
            return family if _NUMBERED[family.tag].fullmatch(_tag_in(key)) else None
        return family

    def _cell_of(self, key: bytes) -> int | None:
        family = self._family_of(key)
        if family is None or family.tag != "c<number>":
            return None
        return int(_tag_in(key)[1:])

    def _plain_on(self, key: bytes, *words: bytes | str | int) -> Awaitable[Answer]:
        """A plain command on the server that holds a key."""
        # A tag that is no text is looked for on another server, which names the right one.
        tag = key.partition(b"}")[0].decode("utf-8", "replace") + "}"
        return self._caller.ask(tag, str(words[0]), Plain(words))

    async def _read(self, kind: str, key: bytes, *words: bytes | str | int) -> Answer | None:
        """What a command says that needs a key of this type; None where it has another one."""
        try:
            return await self._plain_on(key, *words)
        except DependencyDown:
            has = (await self._plain_on(key, "TYPE", key)).decode()
            if has in (kind, _NOTHING):
                raise
            return None

    # --- shards ---------------------------------------------------------------------------------

    def _looks_at_shard_key(
        self, key: bytes, name: str
    ) -> Iterator[Awaitable[list[LedgerFinding]]]:
        if name == "open":
            yield self._look_at_listed(key)
        elif name.startswith("r:<request>"):
            yield self._look_at_record(key, is_older=name != "r:<request>")
        elif name == "z:<session_id>":
            yield self._look_at_session(key)

    async def _look_at_listed(self, key: bytes) -> list[LedgerFinding]:
        """Jobs that are listed as open."""
        findings: list[LedgerFinding] = []
        shard = int(_tag_in(key)[1:], 16)
        async for fields in self._pages(key):
            job_ids = []
            for field, value in zip(fields[::2], fields[1::2], strict=True):
                place = place_in(field.decode("utf-8", "replace"))
                if place is None or place[0] != shard or len(value) != _TIME.size:
                    kind = "a job of the shard and a time"
                    findings.append(check.unreadable_field(key, field, value, kind))
                else:
                    job_ids.append(JobId(field.decode()))
            states = await asyncio.gather(*(self._job(job_id) for job_id in job_ids))
            for job_id, state in zip(job_ids, states, strict=True):
                found = check.check_listed(job_id, is_open=state is not None and state.is_open)
                findings += [found] if found is not None else []
        return findings

    async def _look_at_record(self, key: bytes, *, is_older: bool) -> list[LedgerFinding]:
        value = await self._read("string", key, "GET", key)
        if value is None:
            return []  # It has ended since it was listed.
        try:
            record = packing.read_record(value, 0)
        except packing.UNREADABLE:
            return [check.unreadable_string(key, value, "a job's record")]
        job_id = record.job.job_id
        request = request_in(job_id)
        if request is None or not key.partition(b":r:")[2].startswith(request.encode()):
            return [check.unreadable_string(key, value, "the record of this request")]
        if is_older or not record.is_open:
            return []
        open_key = self._shard(job_id).key("open")
        listed = await self._read("hash", open_key, "HEXISTS", open_key, job_id)
        found = check.check_record(job_id, is_listed=bool(listed))
        return [found] if found is not None else []

    async def _look_at_session(self, key: bytes) -> list[LedgerFinding]:
        name = key.rpartition(b":z:")[2].decode("utf-8", "backslashreplace")
        head = await self._read("hash", key, "HMGET", key, "h", "s")
        if not await self._plain_on(key, "EXISTS", key) or head is None:
            return []  # It ended since it was listed.
        named = {field: value for field, value in zip((b"h", b"s"), head, strict=True) if value}
        try:
            packing.read_session(SessionId(name), named)
        except packing.UNREADABLE:
            return [check.unreadable_hash(key, b"h", named.get(b"h", b""), "a session")]
        findings: list[LedgerFinding] = []
        async for fields in self._pages(key):
            for field, value in zip(fields[::2], fields[1::2], strict=True):
                if field[:1] != b"u":
                    continue
                try:
                    one = packing.read_utterance(field, value)
                except packing.UNREADABLE:
                    findings.append(check.unreadable_field(key, field, value, "an utterance"))
                    continue
                if isinstance(one, r.OpenUtterance) and await self._job(one.job_id) is None:
                    findings.append(check.check_utterance(name, one.index, one.target, one.job_id))
        return findings

    async def _job(self, job_id: JobId) -> packing.JobHead | None:
        """What a job's record begins with; None when there is none."""
        request = request_in(job_id)
        if request is None or shard_in(job_id) is None:
            return None
        record = self._shard(job_id).key(f"r:{request}")
        for key in (record, record + b":" + job_id.encode()):
            head = await self._read("string", key, "GETRANGE", key, 0, packing.MOST_HEAD_BYTES)
            with suppress(*packing.UNREADABLE):  # That is a finding of its own.
                if head and (found := packing.read_head(head)).job_id == job_id:
                    return found
        return None

    def _shard(self, job_id: JobId) -> FunctionTag:
        return FunctionTag(self._prefix, f"s{shard_in(job_id):02x}", SHARD)

    # --- cells ----------------------------------------------------------------------------------

    async def _look_at_cell(self, cell: int) -> list[LedgerFinding]:
        seats, _ = await self._seats(cell)
        board_key, attempts_key, _ = self._cell_keys(cell)
        board = await self._read("string", board_key, "GET", board_key) or b""
        comparison = check.CellCheck(cell, seats)
        findings: list[LedgerFinding] = []
        if not cell_packing.is_board(board):
            findings.append(check.unreadable_string(board_key, board, "a cell's seats"))
        seen: set[str] = set()
        async for page in self._pages(attempts_key):
            fresh = []
            for field, packed in zip(page[::2], page[1::2], strict=True):
                try:
                    if field == b"w":
                        cell_packing.count_waiters(packed, 0)
                        continue
                    attempt = cell_packing.attempt_facts(field, packed)
                except packing.UNREADABLE:
                    kind = "instances that wait" if field == b"w" else "an attempt"
                    findings.append(check.unreadable_field(attempts_key, field, packed, kind))
                    continue
                if attempt.field not in seen:
                    fresh.append(attempt)
            seen |= {each.field for each in fresh}
            for attempt in fresh:
                comparison.add(attempt)
            findings += await self._look_at_jobs(cell, fresh)
        for seat in seats:
            if seat.node_id is not None:
                try:
                    entry = await self._entry(seat.node_id)
                except packing.UNREADABLE:
                    continue  # That is a finding of its own.
                found = check.check_seat(cell, seat, entry)
                findings += [found] if found is not None else []
        return [*comparison.findings(), *findings]

    async def _seats(self, cell: int) -> tuple[list[check.SeatFacts], dict[bytes, bytes]]:
        """The seats of a board, and what the cell's other key says of nodes and seats."""
        board_key, _, seats_key = self._cell_keys(cell)
        board, fields = await asyncio.gather(
            self._read("string", board_key, "GET", board_key),
            self._read("hash", seats_key, "HGETALL", seats_key),
        )
        fields = fields or ()
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
            names = fields[::2]
            scores = await self._read("zset", self._members, "ZMSCORE", self._members, *names)
            scores = scores or (None,) * len(names)
            for name, packed, score in zip(names, fields[1::2], scores, strict=True):
                try:
                    node_id = NodeId(name.decode())
                    cell = cell_packing.read_directory_entry(node_id, packed).cell
                except packing.UNREADABLE:
                    kind = "a node's entry"
                    findings.append(check.unreadable_field(self._entries, name, packed, kind))
                    continue
                member = None if score is None else int(score)
                found = check.check_member(node_id, cell, member)
                findings += [found] if found is not None else []
        async for fields in self._pages(self._members, "ZSCAN"):
            for name, score in zip(fields[::2], fields[1::2], strict=True):
                members[int(score)] += 1
                known = await self._read("hash", self._entries, "HEXISTS", self._entries, name)
                if known == 0:
                    node_id = NodeId(name.decode("utf-8", "surrogateescape"))
                    found = check.check_member(node_id, None, int(score))
                    findings += [found] if found is not None else []
        counts = await self._read("hash", self._counts, "HGETALL", self._counts) or ()
        counted: dict[int, int] = {}
        for cell_name, count in zip(counts[::2], counts[1::2], strict=True):
            try:
                counted[int(cell_name)] = int(count)
            except ValueError:
                kind = "a number of nodes"
                findings.append(check.unreadable_field(self._counts, cell_name, count, kind))
        for cell in sorted(members.keys() | counted.keys()):
            found = check.check_count(cell, counted.get(cell, 0), members[cell])
            findings += [found] if found is not None else []
        return findings

    async def _entry(self, node_id: NodeId) -> int | None:
        packed = await self._read("hash", self._entries, "HGET", self._entries, node_id)
        return cell_packing.read_directory_entry(node_id, packed).cell if packed else None

    async def _pages(self, key: bytes, command: str = "HSCAN") -> AsyncIterator[list[bytes]]:
        kind, cursor = "hash" if command == "HSCAN" else "zset", b"0"
        while True:
            page = await self._read(kind, key, command, key, cursor, "COUNT", _PAGE)
            if page is None:
                return
            cursor, fields = page
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

    async def _remove(self, finding: LedgerFinding) -> bool:
        removal = finding.removal
        if removal is None:
            return False
        tag = FunctionTag(self._prefix, _tag_in(removal.keys[0]), CHECK)
        function, keys = removal.function, removal.keys
        return bool(await self._server.call(tag, function, keys, b"", *removal.found))

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
        Damage.UNREADABLE: _remove,
        Damage.INBOX_WITHOUT_INSTANCE: _remove,
    }


def _tag_in(key: bytes) -> str:
    return key.partition(b"{")[2].partition(b"}")[0].decode("utf-8", "replace")


def _name(key: bytes) -> str:
    """A key as a finding names it, from which it can be made again."""
    return key.decode("utf-8", "surrogateescape")
