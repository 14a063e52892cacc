"""Sessions and jobs on Redis: one function on one shard for each operation."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct

import msgspec

from dragoman.errors import DependencyDown, DragomanError, InternalError
from dragoman.ids import (
    JOB_SHARDS,
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    SessionId,
    TenantId,
    place_in,
    request_in,
    shard_in,
)
from dragoman.live.ledger import Keep, Times
from dragoman.live.protocol import JobResult, Outcome
from dragoman.live.shared import records as r
from dragoman.live.shared.hot import AfterClose, AfterOpen, tell
from dragoman.live.shared.redis import packing
from dragoman.live.shared.redis.packing import kept_name
from dragoman.live.shared.redis.recents import Recents
from dragoman.live.shared.redis.server import (
    PAYLOAD_BYTES,
    SHARD,
    Answer,
    FunctionServer,
    FunctionTag,
    unreadable,
    unstored,
)
from dragoman.observability import get_logger
from dragoman.task_set import TaskSet

log = get_logger("dragoman.cluster")

_OPENING = Struct("<dB4I")
_NEW_JOB = Struct("<4dBc")
_OPENED = Struct("<dI")
_NUMBER = Struct("<i")
_KEPT = Struct("<dII")
_MOVE = Struct("<ddBH")
_CLOSING = Struct("<3dcBBB3I")
_CLOSED = Struct("<ddd")
_OWNER = Struct("<II")
_ENTRY = Struct("<BI")
_NUMBERS = {count: Struct(f"<{count}d") for count in range(1, 3)}
_DUE = Struct("<d")
_UPTO = Struct("<dII")

_MOVED_AT_MOST = 8
"""How often an older record is moved out of the way before the asker is told to come again."""

_TOGETHER = 500
"""How many jobs are renewed or released in one call."""

_PAGE = 500
"""How many open jobs of a shard are looked through at a time."""

_SHARDS_AT_ONCE = 16
"""Of how many shards the open jobs are looked through at a time."""

_FIRST = b"0"
"""Where a look through a hash begins, and what it answers when it is through."""

_NO_LIMIT = -1

_NEW = r.JobOpened(None)


_NewJob = tuple[bytes, bytes, bytes]
"""How a job begins, but for the name of an older record; its record; what is kept of a refusal."""


@dataclass
class _Opening:
    """An opening, ready to be sent."""

    opening: r.UtteranceOpening
    tag: FunctionTag
    keys: tuple[bytes, ...]
    """Those that are enough for a single job that is new."""
    records: list[bytes]
    terms: bytes
    kept: bytes
    news: list[_NewJob]
    elsewhere: list[bytes]
    payloads: list[Future[Answer]]
    """On their way before it."""

    def all_keys(self) -> tuple[bytes, ...]:
        """Also those where records would be moved, and where inputs would lie."""
        jobs = self.opening.jobs
        keys = [_older(record, job.job_id) for record, job in zip(self.records, jobs, strict=True)]
        return (*self.keys, *keys, *(self.tag.key(f"i:{job.job_id}") for job in jobs))

    def arguments(self, older: Sequence[str] = ()) -> tuple[bytes, ...]:
        """All after the terms; older names the jobs whose records are in the way."""
        words = [self.kept]
        for at, (head, record, sent) in enumerate(self.news):
            words += (head + packing.name(older[at] if older else b""), record, sent)
        return (*words, *self.elsewhere)


class RedisShards:
    """The part of the shared ledger that knows sessions and jobs."""

    def __init__(
        self, server: FunctionServer, *, keep_delivered: int, session_ms: int, job_ttl_ms: int
    ) -> None:
        """job_ttl_ms is how much longer than its deadline an open job is kept when no instance
        drives it."""
        self._server = server
        self._session_ms = session_ms
        self._job_ttl_ms = job_ttl_ms
        self._kept_deliveries = (
            _KEPT.pack(session_ms, keep_delivered, keep_delivered * r.MARKS_PER_DELIVERY)
            + packing.mark
        )
        self._shards = [
            FunctionTag(server.key_prefix, f"s{number:02x}", SHARD) for number in range(JOB_SHARDS)
        ]
        self._open_keys = [tag.key("open") for tag in self._shards]
        self._recents = Recents(server)
        self._tasks = TaskSet()

    # --- a job's life ---------------------------------------------------------------------------

    def open(self, opening: r.UtteranceOpening, then: AfterOpen) -> None:
        asked = self._opening(opening)
        if asked.payloads:
            self._tasks.spawn(tell(partial(self._open_on, asked, None), then))
        else:
            self._server.send(
                asked.tag,
                "open",
                asked.keys if len(opening.jobs) == 1 else asked.all_keys(),
                asked.terms,
                asked.arguments(),
                partial(self._open_answered, asked, then),
            )

    def _open_answered(
        self, asked: _Opening, then: AfterOpen, answer: Answer, error: DragomanError | None
    ) -> None:
        if error is not None:
            then(None, error)
            return
        if type(answer) is bytes:
            then(self._all_new(asked.opening, answer), None)
        else:
            self._tasks.spawn(tell(partial(self._open_on, asked, answer), then))

    async def _open_on(
        self, asked: _Opening, answer: Answer | None
    ) -> r.Opened | r.Behind | r.NotOwner:
        """Open, where payloads must be stored before, or where older records are in the way."""
        older: Sequence[str] = ()
        for _ in range(_MOVED_AT_MOST):
            if answer is None:
                keys = asked.all_keys()
                if older:
                    keys += tuple(
                        _older(record, name) if name else record
                        for record, name in zip(asked.records, older, strict=True)
                    )
                call = self._server.call(
                    asked.tag, "open", keys, asked.terms, *asked.arguments(older)
                )
                answer = await _with_payloads(call, asked.payloads)
                asked.payloads = []
            if isinstance(answer, bytes):
                return self._all_new(asked.opening, answer)
            if answer[0] == b"moved":
                older = [name.decode() for name in answer[1]]
            elif answer[0] != b"more":
                return await self._opened(asked.opening, asked.tag, answer)
            answer = None
        raise _never_settled("open")

    def _opening(self, opening: r.UtteranceOpening) -> _Opening:
        """What is sent to open an utterance; its payloads are on their way."""
        shard, tag = self._shard_of_opening(opening)
        held, jobs = opening.held, opening.jobs
        if held is not None:
            owner = held.owner
            numbers = (True, opening.index, opening.next_chunk_seq, held.seen, owner.epoch)
            owners = kept_name(owner.instance_id) + packing.name(owner.connection_id)
        else:
            numbers = (False, opening.index, opening.next_chunk_seq, 0, 0)
            owners = packing.NO_NAME + packing.NO_NAME
        records = [tag.key(f"r:{_request_of(job.job_id)}") for job in jobs]
        keys = [
            self._open_keys[shard],
            records[0] if held is None else _session_key(tag, held.session_id),
            *records,
        ]
        payloads: list[Future[Answer]] = []
        news = [self._new_job(opening, job, tag, payloads) for job in jobs]
        elsewhere = [packing.names(each.target, each.job_id) for each in opening.elsewhere]
        return _Opening(
            opening,
            tag,
            tuple(keys),
            records,
            _OPENING.pack(opening.claim_ms, *numbers) + owners + packing.name(opening.half_sample),
            bytes((len(jobs),)) + self._kept_deliveries,
            news,
            elsewhere,
            payloads,
        )

    def _all_new(self, opening: r.UtteranceOpening, answer: bytes) -> r.Opened:
        """None of the requests was made before: the answer has numbers of refused ones, or -1."""
        now_ms, revision = _OPENED.unpack_from(answer)
        at_ms = int(now_ms)
        for new in opening.jobs:
            self._list(opening, new, at_ms)
        numbers = _NUMBER.iter_unpack(memoryview(answer)[_OPENED.size :])
        jobs = tuple([_NEW if each < 0 else r.JobOpened(each) for (each,) in numbers])
        return r.Opened(at_ms, jobs, revision)

    def _list(self, opening: r.UtteranceOpening, new: r.NewJob, at_ms: int) -> None:
        life_ms = self._life_ms(opening, new)
        self._recents.add(new.spec.tenant, opening.instance_id, at_ms, new.job_id, life_ms)

    async def _opened(
        self, opening: r.UtteranceOpening, tag: FunctionTag, answer: Answer
    ) -> r.Opened | r.Behind | r.NotOwner:
        match answer[0]:
            case b"behind":
                return r.Behind(answer[1], answer[2])
            case b"not_owner":
                return _not_owner(answer)
            case b"unstored":
                raise unstored(f"the input of job {opening.jobs[0].job_id}")
        _, at_ms, revision, answers = answer
        jobs: list[r.JobOpened | r.JobFound] = []
        for new, each in zip(opening.jobs, answers, strict=True):
            if isinstance(each, int):
                jobs.append(r.JobOpened(None if each < 0 else each))
                self._list(opening, new, at_ms)
            else:
                found = await self._stored(tag, packing.read_record(each, at_ms))
                jobs.append(r.JobFound(found, found.body_hash == new.body_hash))
                needless = found.job_id != new.job_id or found.outcome is not None
                if needless and _is_long(packing.pack(new.input)):
                    self._forget(tag, f"i:{new.job_id}")
        return r.Opened(at_ms, tuple(jobs), revision)

    def _life_ms(self, opening: r.UtteranceOpening, job: r.NewJob) -> int:
        """How long a job may be listed, as far as is known when it begins."""
        return self._job_ttl_ms + (job.total_ms or 0) + _times_kept(opening.keep)[1]

    def _shard_of_opening(self, opening: r.UtteranceOpening) -> tuple[int, FunctionTag]:
        name = opening.held.session_id if opening.held is not None else opening.jobs[0].job_id
        shard, tag = self._shard(name)
        for job in opening.jobs:
            if job.job_id[2:4] != name[2:4]:
                raise ValueError(f"job {job.job_id} does not lie in the shard that it is opened in")
        return shard, tag

    def _new_job(
        self,
        opening: r.UtteranceOpening,
        job: r.NewJob,
        tag: FunctionTag,
        payloads: list[Future[Answer]],
    ) -> _NewJob:
        """The arguments of a job; a long input is sent, and added to the payloads."""
        release_ms, forget_ms = _times_kept(opening.keep)
        flags, ttl_ms = 0, self._job_ttl_ms + (job.total_ms or 0)
        state, sent = packing.OPEN, b""
        if job.refused is not None:
            ttl_ms = forget_ms
            state = packing.STATES[Outcome.FAILED]
            body = packing.end_body(job.refused, None, Times(), b"")
            sent = packing.delivery(r.Delivery(opening.index, job.target_key, job.job_id))
        else:
            body = packing.pack(job.input)
            if _is_long(body):
                payloads.append(self._keep(tag, f"i:{job.job_id}", body, ttl_ms))
                flags, body = packing.INPUT_ELSEWHERE, b""
        numbers = _NEW_JOB.pack(
            _NO_LIMIT if job.total_ms is None else job.total_ms,
            0,
            release_ms,
            forget_ms,
            flags,
            state,
        )
        head = b"".join(
            (numbers, kept_name(str(ttl_ms)), packing.name(job.job_id), kept_name(job.target_key))
        )
        return head, packing.new_record(job, opening.instance_id, body), sent

    async def move(self, move: r.Move) -> r.MovedOn | r.NotCurrent | r.HasEnded | r.NoJob:
        where = self._where(move.job_id)
        if where is None:
            return r.NoJob()
        shard, tag, record = where
        terms = _MOVE.pack(
            move.claim_ms,
            _NO_LIMIT if move.total_ms is None else move.total_ms,
            move.preempted,
            move.cell,
        ) + packing.names(move.job_id, move.seen, move.attempt_id, move.instance_id)
        ended = b"" if move.ended is None else packing.pack(move.ended)
        answer = await self._server.call(
            tag, "move", (self._open_keys[shard], record), terms, ended
        )
        if answer[0] == b"moved":
            return r.MovedOn(answer[1])
        return await self._refused(move.job_id, tag, answer)

    def close(self, closing: r.Closing, then: AfterClose) -> None:
        where = self._where(closing.job_id)
        if where is None:
            then(r.NoJob(), None)
            return
        shard, tag, record = where
        output = _result_bytes(closing.ending.output)
        if _is_long(output) and closing.attempt_id is not None:
            self._tasks.spawn(tell(partial(self._close_long, closing, where, output), then))
            return
        keys, terms = self._closing(closing, shard, tag, record, 0)
        self._server.send(
            tag,
            "close",
            keys,
            terms,
            self._end_words(closing, output),
            partial(self._close_answered, closing.job_id, tag, then),
        )

    def _close_answered(
        self,
        job_id: JobId,
        tag: FunctionTag,
        then: AfterClose,
        answer: Answer,
        error: DragomanError | None,
    ) -> None:
        if error is not None:
            then(None, error)
        elif type(answer) is bytes:
            then(_closed(answer), None)
        else:
            self._tasks.spawn(tell(partial(self._not_closed, job_id, tag, answer), then))

    async def _close_long(
        self, closing: r.Closing, where: tuple[int, FunctionTag, bytes], output: bytes
    ) -> r.Closed | r.NotCurrent | r.HasEnded | r.NoJob:
        """Close a job whose result is stored under a key of its own."""
        shard, tag, record = where
        release_ms, _ = _times_kept(closing.keep)
        payload = self._keep(tag, f"o:{closing.attempt_id}", output, release_ms)
        keys, terms = self._closing(closing, shard, tag, record, packing.RESULT_ELSEWHERE)
        call = self._server.call(tag, "close", keys, terms, *self._end_words(closing, b""))
        answer = await _with_payloads(call, (payload,))
        if isinstance(answer, bytes):
            return _closed(answer)
        return await self._not_closed(closing.job_id, tag, answer)

    async def _not_closed(
        self, job_id: JobId, tag: FunctionTag, answer: Answer
    ) -> r.NotCurrent | r.HasEnded | r.NoJob:
        if answer[0] == b"unstored":
            raise unstored(f"the result of job {job_id}")
        return await self._refused(job_id, tag, answer)

    def _closing(
        self, closing: r.Closing, shard: int, tag: FunctionTag, record: bytes, flags: int
    ) -> tuple[tuple[bytes, ...], bytes]:
        """The keys of a closing, and its terms."""
        held, entry = closing.held, closing.delivery
        keys: tuple[bytes, ...] = (
            self._open_keys[shard],
            record,
            tag.key(f"i:{closing.job_id}"),
        )
        in_session = False
        owners, epoch, seen = packing.NO_NAME + packing.NO_NAME, 0, 0
        if held is not None:
            owner, seen = held.owner, held.seen
            epoch = owner.epoch
            owners = kept_name(owner.instance_id) + packing.name(owner.connection_id)
            if held.session_id[2:4] == closing.job_id[2:4]:
                in_session = True
                keys += (_session_key(tag, held.session_id),)
        if flags & packing.RESULT_ELSEWHERE:
            keys += (tag.key(f"o:{closing.attempt_id}"),)
        lease_ms = closing.keep.lease_ms if closing.ending.outcome is Outcome.SUCCESS else 0
        release_ms, forget_ms = _times_kept(closing.keep)
        numbers = _CLOSING.pack(
            lease_ms,
            release_ms,
            forget_ms,
            packing.STATES[closing.ending.outcome],
            flags,
            closing.attempt_id is None,
            in_session,
            epoch,
            seen,
            entry.index if entry is not None else 0,
        )
        job, attempt = packing.name(closing.job_id), packing.name(closing.attempt_id or b"")
        target = kept_name(entry.target) if entry is not None else packing.NO_NAME
        ttl = kept_name(str(forget_ms))
        return keys, b"".join((numbers, ttl, job, attempt, owners, target))

    def _end_words(self, closing: r.Closing, output: bytes) -> tuple[bytes, bytes, bytes]:
        """The body of the record, what is kept of the delivery, and how many of those are."""
        entry = closing.delivery
        return (
            packing.end_body(
                closing.ending.error, closing.node_id, closing.times, output, closing.last
            ),
            packing.delivery(entry) if entry is not None else b"",
            self._kept_deliveries,
        )

    async def renew(
        self, job_ids: Sequence[JobId], instance_id: InstanceId, *, claim_ms: int
    ) -> tuple[JobId, ...]:
        known = [(job_id, where) for job_id in job_ids if (where := self._where(job_id))]
        refused = set(job_ids) - {job_id for job_id, _ in known}
        for start in range(0, len(known), _TOGETHER):
            some = known[start : start + _TOGETHER]
            shard, tag, _ = some[0][1]
            keys: list[bytes] = [self._open_keys[shard]]
            for job_id, (_, _, record) in some:
                keys += (record, tag.key(f"i:{job_id}"))
            terms = _numbers(claim_ms, self._job_ttl_ms) + packing.names(instance_id)
            positions = await self._server.call(
                tag, "renew", tuple(keys), terms, *(job_id for job_id, _ in some)
            )
            refused |= {some[position][0] for position in positions}
        return tuple(job_id for job_id in job_ids if job_id in refused)

    async def take_over(
        self, job_id: JobId, seen: AttemptId, instance_id: InstanceId, *, claim_ms: int
    ) -> r.TakenOver | r.StillDriven | r.NotCurrent | r.HasEnded | r.NoJob:
        where = self._where(job_id)
        if where is None:
            return r.NoJob()
        shard, tag, record = where
        terms = _numbers(claim_ms) + packing.names(job_id, seen, instance_id)
        answer = await self._server.call(tag, "take_over", (self._open_keys[shard], record), terms)
        if answer[0] == b"taken":
            taken = packing.read_record(answer[2], answer[1])
            await self.list_again(taken.job, instance_id)
            work = await self._work(tag, taken)
            return r.NoJob() if work is None else r.TakenOver(work)
        if answer[0] == b"driven":
            return r.StillDriven(packing.read_record(answer[2], answer[1]).job)
        return await self._refused(job_id, tag, answer)

    async def release(self, job_ids: Sequence[JobId]) -> None:
        known = [(job_id, where) for job_id in job_ids if (where := self._where(job_id))]
        for start in range(0, len(known), _TOGETHER):
            some = known[start : start + _TOGETHER]
            _, tag, _ = some[0][1]
            elsewhere = await self._server.call(
                tag,
                "release",
                tuple(record for _, (_, _, record) in some),
                b"",
                *(job_id for job_id, _ in some),
            )
            await asyncio.gather(
                *(
                    self._server.plain(tag, "PEXPIRE", tag.key(f"o:{name.decode()}"), left_ms)
                    for _, name, left_ms in elsewhere
                )
            )

    async def read(self, job_id: JobId) -> r.StoredJob | None:
        found = await self._read(job_id)
        return None if found is None else await self._stored(*found)

    async def read_open(self, job_id: JobId) -> r.OpenWork | None:
        found = await self._read(job_id)
        return None if found is None else await self._work(*found)

    async def due(self, shards: Sequence[int], limit: int) -> tuple[r.StoredJob, ...]:
        found: list[r.StoredJob] = []
        failed: list[DependencyDown] = []
        # A few at a time: jobs that are placed meanwhile wait for no long list of answers.
        for start in range(0, len(shards), _SHARDS_AT_ONCE):
            some = shards[start : start + _SHARDS_AT_ONCE]
            pages = await asyncio.gather(
                *(self._page_of_open(shard, _FIRST) for shard in some), return_exceptions=True
            )
            # Most shards have no open job.
            busy = [
                self._due_in(shard, page, limit)
                for shard, page in zip(some, pages, strict=True)
                if not isinstance(page, BaseException) and (page[0] != _FIRST or page[1])
            ]
            for answer in (*pages, *await asyncio.gather(*busy, return_exceptions=True)):
                if isinstance(answer, DependencyDown):
                    failed.append(answer)
                elif isinstance(answer, BaseException):
                    raise answer
                elif isinstance(answer, tuple):
                    found += answer
        if failed and len(failed) >= len(shards):
            raise failed[0]
        if failed:
            # One that cannot be read keeps no other waiting.
            log.warning_limited(
                "shards_not_swept", key="due", every_seconds=10, error=failed[0].message
            )
        return tuple(found)

    def _page_of_open(self, shard: int, cursor: bytes) -> Future[Answer]:
        key = self._open_keys[shard]
        return self._server.plain(self._shards[shard], "HSCAN", key, cursor, "COUNT", _PAGE)

    async def _due_in(self, shard: int, page: Answer, limit: int) -> tuple[r.StoredJob, ...]:
        tag, found = self._shards[shard], {}
        # A hash that was empty has no time to live when it is filled again.
        renewed = self._server.plain(tag, "PEXPIRE", self._open_keys[shard], self._job_ttl_ms)
        renewed.add_done_callback(_ignore)
        now_ms = await self._server.now_ms(tag)
        while True:
            cursor, fields = page
            for at in range(0, len(fields), 2):
                try:
                    (due_ms,) = _DUE.unpack(fields[at + 1])
                    if due_ms <= now_ms:
                        found[JobId(fields[at].decode())] = due_ms
                except packing.UNREADABLE:
                    unreadable(self._open_keys[shard], fields[at])
            if cursor == _FIRST or len(found) >= limit:
                break
            page = await self._page_of_open(shard, cursor)
        first = sorted(found, key=lambda job_id: (found[job_id], job_id))[:limit]
        answers = await asyncio.gather(*(self._due(job_id) for job_id in first))
        return tuple(job for job in answers if job is not None)

    async def _due(self, job_id: JobId) -> r.StoredJob | None:
        where = self._where(job_id)
        if where is None:
            return None
        shard, tag, record = where
        try:
            answer = await self._server.call(
                tag, "due", (self._open_keys[shard], record), b"", job_id
            )
            return packing.read_record(answer[1], answer[0]).job if answer else None
        except (InternalError, *packing.UNREADABLE):
            unreadable(record)
            return None

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[r.StoredJob, ...]:
        found: list[r.StoredJob] = []
        async for names in self._recents.newest_first(tenant, limit, before):
            jobs = await asyncio.gather(*(self.read(job_id) for job_id in names))
            found += [job for job in jobs if job is not None]
            if len(found) >= limit:
                break
        return tuple(found[:limit])

    async def list_again(self, job: r.StoredJob, instance_id: InstanceId) -> None:
        life_ms = self._job_ttl_ms
        self._recents.add(job.spec.tenant, instance_id, job.created_ms, job.job_id, life_ms)

    # --- a session's life -----------------------------------------------------------------------

    async def begin_session(self, session: r.StoredSession) -> None:
        await self.restore_session(session)

    async def restore_session(self, session: r.StoredSession) -> int:
        _, tag = self._shard(session.session_id)
        return int(
            await self._server.call(
                tag,
                "restore",
                (_session_key(tag, session.session_id),),
                _numbers(self._session_ms),
                packing.session_header(session),
                packing.session_start(session),
                *packing.session_fields(session),
            )
        )

    async def take_session(
        self,
        session_id: SessionId,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        *,
        epoch: int | None = None,
    ) -> r.TakenSession | r.ChangedHands | None:
        if shard_in(session_id) is None:
            return None
        _, tag = self._shard(session_id)
        terms = _numbers(self._session_ms, _NO_LIMIT if epoch is None else epoch)
        answer = await self._server.call(
            tag,
            "take",
            (_session_key(tag, session_id),),
            terms + packing.names(instance_id, connection_id),
        )
        match answer[0]:
            case b"none":
                return None
            case b"changed_hands":
                return r.ChangedHands()
        return r.TakenSession(*packing.read_session(session_id, _pairs(answer[1])))

    async def deliver(
        self, held: r.Holding, entries: Sequence[r.Delivery]
    ) -> r.Delivered | r.NotOwner:
        _, tag = self._shard(held.session_id)
        arguments: list[bytes] = []
        for entry in entries:
            arguments += (
                _ENTRY.pack(entry.job_id is not None, entry.index) + packing.names(entry.target),
                packing.delivery(entry),
            )
        answer = await self._server.call(
            tag,
            "deliver",
            (_session_key(tag, held.session_id),),
            _owner(held.owner, held.seen),
            self._kept_deliveries,
            *arguments,
        )
        if answer[0] == b"not_owner":
            return _not_owner(answer)
        seqs = tuple(None if seq < 0 else seq for seq in answer[2])
        return r.Delivered(seqs, answer[1])

    async def acknowledge(
        self, held: r.Holding, upto: int, next_chunk_seq: int = 0, half_sample: bytes = b""
    ) -> int:
        _, tag = self._shard(held.session_id)
        return int(
            await self._server.call(
                tag,
                "acknowledge",
                (_session_key(tag, held.session_id),),
                _owner(held.owner, held.seen),
                _UPTO.pack(self._session_ms, upto, next_chunk_seq) + packing.names(half_sample),
            )
        )

    async def renew_sessions(self, held: Sequence[r.Holding]) -> tuple[SessionId, ...]:
        by_shard: dict[int, list[r.Holding]] = {}
        for each in held:
            by_shard.setdefault(self._shard(each.session_id)[0], []).append(each)
        answers = await asyncio.gather(
            *(self._renew_sessions(shard, some) for shard, some in by_shard.items())
        )
        refused = [each for answer in answers for each in answer]
        return tuple(each.session_id for each in held if each in refused)

    async def _renew_sessions(self, shard: int, held: Sequence[r.Holding]) -> list[r.Holding]:
        tag = self._shards[shard]
        # Each owner's packed form begins with a time, as a call's does.
        owners = [self._server.time + _owner(each.owner, each.seen) for each in held]
        positions = await self._server.call(
            tag,
            "renew_sessions",
            tuple(_session_key(tag, each.session_id) for each in held),
            _numbers(self._session_ms),
            *owners,
        )
        return [held[position] for position in positions]

    async def end_session(self, session_id: SessionId, owner: r.SessionOwner) -> bool:
        _, tag = self._shard(session_id)
        answer = await self._server.call(
            tag, "end_session", (_session_key(tag, session_id),), _owner(owner, 0)
        )
        if answer:
            # What was said is not kept longer than the session.
            await self._server.plain(tag, "UNLINK", tag.key(f"p:{session_id}"), name="end_session")
        return bool(answer)

    async def keep_past(self, session_id: SessionId, written: bytes) -> None:
        _, tag = self._shard(session_id)
        key = tag.key(f"p:{session_id}")
        await self._server.plain(
            tag, "SET", key, written, "PX", 2 * self._session_ms, name="keep_past"
        )

    async def read_past(self, session_id: SessionId) -> bytes:
        _, tag = self._shard(session_id)
        found: bytes | None = await self._server.plain(
            tag, "GET", tag.key(f"p:{session_id}"), name="read_past"
        )
        return found or b""

    async def read_session(self, session_id: SessionId) -> r.StoredSession | None:
        if shard_in(session_id) is None:
            return None
        _, tag = self._shard(session_id)
        fields = await self._server.call(tag, "read_session", (_session_key(tag, session_id),), b"")
        return packing.read_session(session_id, _pairs(fields))[0] if fields else None

    async def count(self) -> dict[str, int]:
        """How many jobs and sessions there are, for tests and for operators: it looks at all."""
        by_lane = {self._server.lane(tag): tag for tag in self._shards}
        counts: Counter[str] = Counter(jobs=0, open=0, requests=0, sessions=0)
        for tag in by_lane.values():
            now_ms = await self._server.now_ms(tag)
            for key in await self._server.scan(tag, "{s??}:[rz]:*"):
                kind, _, name = key.partition(b"}:")[2].decode().partition(":")
                if kind == "z":
                    header = await self._server.plain(tag, "HGET", key, "h")
                    counts["sessions"] += not packing.has_lapsed(header, now_ms)
                    continue
                value = await self._server.plain(tag, "GET", key)
                if not packing.is_forgotten(value, now_ms):
                    counts["jobs"] += 1
                    counts["open"] += value[:1] == packing.OPEN
                    counts["requests"] += ":" not in name
        return dict(counts)

    async def stop(self) -> None:
        """Write what still waits to be written."""
        await self._recents.stop()

    # --- where things are -----------------------------------------------------------------------

    def _shard(self, name: str) -> tuple[int, FunctionTag]:
        shard = shard_in(name)
        if shard is None:
            raise ValueError(f"{name!r} names no shard: ids are made by dragoman.ids.")
        return shard, self._shards[shard]

    def _where(self, job_id: JobId) -> tuple[int, FunctionTag, bytes] | None:
        """The job's shard and the key of its record; None when the text is no job_id."""
        place = place_in(job_id)
        if place is None:
            return None
        shard, request = place
        tag = self._shards[shard]
        return shard, tag, tag.key(f"r:{request}")

    async def _read(self, job_id: JobId) -> tuple[FunctionTag, packing.PackedJob] | None:
        where = self._where(job_id)
        if where is None:
            return None
        _, tag, record = where
        keys = (record, _older(record, job_id))
        answer = await self._server.call(tag, "read", keys, b"", job_id)
        return (tag, packing.read_record(answer[1], answer[0])) if answer else None

    async def _refused(
        self, job_id: JobId, tag: FunctionTag, answer: Answer
    ) -> r.NotCurrent | r.HasEnded | r.NoJob:
        if answer[0] == b"gone":
            # Another job may have its request by now.
            older = await self.read(job_id)
            return r.NoJob() if older is None else r.HasEnded(older)
        job = await self._stored(tag, packing.read_record(answer[2], answer[1]))
        return r.NotCurrent(job) if answer[0] == b"not_current" else r.HasEnded(job)

    # --- payloads -------------------------------------------------------------------------------

    async def _stored(self, tag: FunctionTag, record: packing.PackedJob) -> r.StoredJob:
        job = record.job
        if not record.result_elsewhere:
            return job
        packed = await self._payload(tag, f"o:{job.attempt_id}")
        if packed is None:
            return msgspec.structs.replace(job, released=True)
        return msgspec.structs.replace(job, output=packing.read_result(packed))

    async def _work(self, tag: FunctionTag, record: packing.PackedJob) -> r.OpenWork | None:
        if not record.is_open:
            return None
        packed = record.input
        if packed is None:
            packed = await self._payload(tag, f"i:{record.job.job_id}")
        return None if packed is None else r.OpenWork(record.job, packing.read_input(packed))

    async def _payload(self, tag: FunctionTag, name: str) -> bytes | None:
        for _ in range(2):
            # One that is missing is read again: it may be on its way.
            packed: bytes | None = await self._server.plain(tag, "GET", tag.key(name))
            if packed is not None:
                return packed
        return None

    def _keep(self, tag: FunctionTag, name: str, packed: bytes, ttl_ms: int) -> Future[Answer]:
        return self._server.plain(tag, "SET", tag.key(name), packed, "PX", max(1, ttl_ms))

    def _forget(self, tag: FunctionTag, name: str) -> None:
        self._server.plain(tag, "UNLINK", tag.key(name)).add_done_callback(_ignore)


async def _with_payloads(call: Future[Answer], payloads: Sequence[Future[Answer]]) -> Answer:
    """The call's answer, once the payloads that were sent before it are stored, too."""
    if not payloads:
        return await call
    answers = await asyncio.gather(call, *payloads)
    return answers[0]


def _ignore(done: Future[Answer]) -> None:
    """What failed is made up for by the next sweep, or by a time to live."""
    if not done.cancelled():
        done.exception()


def _request_of(job_id: JobId) -> str:
    request = request_in(job_id)
    if request is None:
        raise ValueError(f"{job_id!r} names no request: make it with new_job_id_for.")
    return request


def _older(record: bytes, job_id: str) -> bytes:
    """Where a job's record is moved when another job gets its request."""
    return b"%b:%b" % (record, job_id.encode())


def _session_key(tag: FunctionTag, session_id: SessionId) -> bytes:
    return tag.key(f"z:{session_id}")


def _is_long(packed: bytes) -> bool:
    return len(packed) > PAYLOAD_BYTES


def _result_bytes(result: JobResult | None) -> bytes:
    return b"" if result is None else packing.pack(result)


def _numbers(*values: int) -> bytes:
    return _NUMBERS[len(values)].pack(*values)


def _owner(owner: r.SessionOwner, seen: int) -> bytes:
    return _OWNER.pack(owner.epoch, seen) + packing.names(owner.instance_id, owner.connection_id)


def _not_owner(answer: Answer) -> r.NotOwner:
    if len(answer) == 1:
        return r.NotOwner(None)
    _, instance_id, connection_id, epoch = answer
    return r.NotOwner(
        r.SessionOwner(
            InstanceId(instance_id.decode()), ConnectionId(connection_id.decode()), epoch
        )
    )


def _pairs(fields: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(fields[::2], fields[1::2], strict=True))


def _times_kept(keep: Keep) -> tuple[int, int]:
    """How long after its end a job's payload is kept, and the job itself."""
    release_ms = max(keep.retention_ms, keep.lease_ms)
    return release_ms, release_ms + keep.lease_ms


def _closed(answer: bytes) -> r.Closed:
    at_ms, seq, revision = map(int, _CLOSED.unpack(answer))
    return r.Closed(at_ms, None if seq < 0 else seq, revision)


def _never_settled(what: str) -> DependencyDown:
    return DependencyDown(f"Redis changed under {what} again and again; asking again is safe.")
