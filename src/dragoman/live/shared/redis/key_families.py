"""The keys of the shared ledger."""

from __future__ import annotations

from dragoman.redis_servers import KeyFamily

_CELL = (
    "the ledger's `cell_ttl_ms` (twice as long as offline nodes are remembered); every sweep of "
    "the cell renews it"
)
_DIRECTORY = "none: an entry goes when an instance forgets its node"

FAMILIES = (
    KeyFamily(
        "c<number>",
        "board",
        "string",
        "the cell's version; for each seat its free slots, slots, held slots, flags, "
        "in which second an instance was woken for it, epoch, stamp, "
        "the version it changed with, until when it is alive, mean service time, node",
        "44 bytes a seat",
        _CELL,
    ),
    KeyFamily(
        "c<number>",
        "a",
        "hash",
        "attempt to its record: state, seat, times, job, driver, heir or victim, and its end where "
        "that is kept; tombstones; in the field `w` the instances that wait for a slot",
        "about 200 bytes an attempt",
        _CELL,
    ),
    KeyFamily(
        "c<number>",
        "seats",
        "hash",
        "node to seat; seat to node and connection; the node's facts",
        "about 150 bytes a node, plus its facts",
        _CELL,
    ),
    KeyFamily(
        "c<number>",
        "o:<attempt_id>",
        "string",
        "a result of more than 1 kB that is kept in the cell until the job's driver has it",
        "the result",
        "the ledger's `cell_ttl_ms`; removed when the driver has the result",
    ),
    KeyFamily(
        "s<00..ff>",
        "open",
        "hash",
        "open job to the time when the sweep must look at it",
        "about 80 bytes an open job",
        "the ledger's `job_ttl_ms` (an hour); every sweep of the shard renews it",
    ),
    KeyFamily(
        "s<00..ff>",
        "r:<request>:<job_id>",
        "string",
        "a job's record, after another job got its request",
        "as `r:<request>`",
        "as `r:<request>`",
    ),
    KeyFamily(
        "s<00..ff>",
        "r:<request>",
        "string",
        "a request's job: state, times, body hash, job_id, attempt, cell, driver, what was asked "
        "for, and its input while it is open, then its end; either may lie under a key of its own",
        "about 350 bytes, plus an input or a result of up to 1 kB",
        "while it is open its deadline and `job_ttl_ms`, renewed by its driver; then the longer of "
        "retention and lease, and the lease once more",
    ),
    KeyFamily(
        "s<00..ff>",
        "i:<job_id>",
        "string",
        "an input of more than 1 kB",
        "the input",
        "as the record of its open job; removed when the job ends",
    ),
    KeyFamily(
        "s<00..ff>",
        "o:<attempt_id>",
        "string",
        "a result of more than 1 kB",
        "the result",
        "the retention; the lease once its delivery was acknowledged",
    ),
    KeyFamily(
        "s<00..ff>",
        "z:<session_id>",
        "hash",
        "a session: owner with epoch, revision, counters, the last utterance of each target, the "
        "init, and a field for each utterance that is open or not acknowledged",
        "about 400 bytes, 80 more for each such utterance",
        "twice the ledger's `session_ms`; its owner's writes and renewals renew it",
    ),
    KeyFamily(
        "s<00..ff>",
        "p:<session_id>",
        "string",
        "the last utterances of a session with their results, for the nodes that hear the next",
        "up to `scheduler.context.max_bytes` a target",
        "twice the ledger's `session_ms`; each result renews it, and it goes with the session",
    ),
    KeyFamily(
        "n<tenant and instance>",
        "jobs:<minute>",
        "list",
        "the jobs of a tenant that an instance opened in one minute",
        "about 60 bytes a job",
        "as long as any of them may be kept",
    ),
    KeyFamily(
        "t<tenant>",
        "lists",
        "sorted set",
        "which such lists a tenant has, by minute",
        "about 100 bytes a list",
        "as long as any job may be kept, from the last one on",
    ),
    KeyFamily(
        "directory",
        "entries",
        "hash",
        "node to cell, holder, connection and epoch",
        "about 200 bytes a node",
        _DIRECTORY,
        for_ever=True,
    ),
    KeyFamily(
        "directory",
        "members",
        "sorted set",
        "nodes by cell",
        "about 100 bytes a node",
        _DIRECTORY,
        for_ever=True,
    ),
    KeyFamily(
        "directory",
        "copied",
        "string",
        "that the nodes of an older data model have been copied over",
        "a few bytes",
        "none: the older model's nodes stay, too, and are not to come back",
        for_ever=True,
    ),
    KeyFamily(
        "directory",
        "counts",
        "hash",
        "how many nodes live in each cell",
        "a few bytes a cell",
        _DIRECTORY,
        for_ever=True,
    ),
)
