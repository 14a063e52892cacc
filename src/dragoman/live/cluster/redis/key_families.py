"""The keys of presence, notes and limits."""

from __future__ import annotations

from dragoman.redis_servers import KeyFamily

_PRESENCE = "at least a day; every write renews it"
_LETTERS = "at least 30 days from the last letter on"
_BLOCKS = "until the last block runs out: half a minute, renewed while it is used"

FAMILIES = (
    KeyFamily(
        "i:<instance_id>",
        "record",
        "hash",
        "the instance's state (up, left, down), its incarnation, until when it is present, what it "
        "reports about itself, which peer cleans up after it",
        "about 500 bytes",
        _PRESENCE,
    ),
    KeyFamily(
        "i:<instance_id>",
        "inbox",
        "stream",
        "notes to it, with what their reader needs; at most `cluster.stream_maxlen`",
        "about 500 bytes a note with a job, plus an input or a result of up to 4 kB",
        _PRESENCE,
    ),
    KeyFamily(
        "instances",
        "known",
        "hash",
        "each instance that is present, or gone and not yet cleaned up after, with its incarnation",
        "about 100 bytes an instance",
        _PRESENCE,
    ),
    KeyFamily(
        "dead_letters",
        "letters",
        "hash",
        "notes that were given up, with why and when; at most `cluster.dlq_maxlen`",
        "about 250 bytes a letter",
        _LETTERS,
    ),
    KeyFamily(
        "dead_letters",
        "order",
        "sorted set",
        "their ids, in the order in which the notes were posted",
        "about 100 bytes a letter",
        _LETTERS,
    ),
    KeyFamily(
        "dead_letters",
        "counts",
        "hash",
        "letters by instance",
        "a few bytes an instance",
        _LETTERS,
    ),
    KeyFamily(
        "t:<tenant>",
        "session_blocks",
        "hash",
        "how much of the tenant's limit of sessions each instance has in hand",
        "about 100 bytes an instance",
        _BLOCKS,
    ),
    KeyFamily(
        "t:<tenant>",
        "job_blocks",
        "hash",
        "how much of the tenant's limit of unfinished jobs each instance has in hand",
        "about 100 bytes an instance",
        _BLOCKS,
    ),
    KeyFamily(
        "w:<what>",
        "window",
        "hash",
        "how often something happened in a window of time",
        "about 100 bytes",
        "until the window ends",
    ),
)
