"""The reference page of all keys in Redis, made from their declarations.

``python -m dragoman.cli.redis_keys`` prints it; it is kept as docs/reference/redis-keys.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dragoman.live import cluster, shared
from dragoman.redis_servers import MODEL, KeyFamily

_INTRODUCTION = f"""\
# Keys in Redis

What Dragoman keeps in Redis when `cluster.enabled` is on. Every key begins with
`cluster.key_prefix` and the version of the data model: `dragoman:v1:{MODEL}:` unless another prefix
is set. The part in braces is the hash tag: keys with the same tag live on the same server of a
Redis Cluster, where one call never touches two tags.

Values are packed; do not change them by hand. `dragoman cluster check` compares them with each
other, and `dragoman cluster check --repair` puts right what does not fit. Deleting all keys is
safe: cells then answer as cold, nodes report again, sessions are written again by their owners, and
jobs in flight are lost.
"""

_SECTIONS = (
    (
        "Cells",
        "c<number>",
        "A cell holds up to `scheduler.pools.cell_size` nodes. Choosing a node and holding one of\n"
        "its slots is one step in it.",
    ),
    (
        "Shards",
        "s<00..ff>",
        "There are 256 shards. A session_id and a job_id contain the shard that they lie in; the\n"
        "jobs of a session's utterances lie in the session's.",
    ),
    (
        "Recent jobs",
        "n<tenant and instance>",
        "Written five times a second, by tenant, instance and minute: no key is touched by every\n"
        "job.",
    ),
    ("Recent jobs by tenant", "t<tenant>", ""),
    ("Directory", "directory", "Touched when a node registers or is forgotten."),
    ("Instances", "i:<instance_id>", ""),
    ("All instances", "instances", ""),
    ("Dead letters", "dead_letters", ""),
    (
        "Limits of tenants",
        "t:<tenant>",
        "Only where a limit is set. An instance has a part of the limit in hand, and asks when\n"
        "that is used up.",
    ),
    ("Windows of time", "w:<what>", ""),
)

_CHANNELS = f"""\
## Channels

`<prefix>:{MODEL}:feed` for all instances, and `<prefix>:{MODEL}:feed:<instance_id>` for one: news
that an instance may miss. Redis does not store them.
"""

_LAB = """\
## The lab's queue

What the lab keeps on the server that `lab.queue_url` names. It may be deleted at any time: messages
are hints.

| key | type | holds | size |
| --- | --- | --- | --- |
| `dragoman:{lab}:offers` | stream | items that workers may take; a group gives each message to \
one worker | about 1,000 messages of up to 1 kB |
| `dragoman:{lab}:stops`, `:news`, `:changes` | stream | what every worker, every scheduler and \
every instance with watchers is told | about 1,000 messages each, of up to 5 kB |
"""


def families() -> tuple[KeyFamily, ...]:
    """Every kind of key, of all rooms."""
    return (*shared.KEY_FAMILIES, *cluster.KEY_FAMILIES)


def reference() -> str:
    return "\n".join((_INTRODUCTION, *_sections(), _CHANNELS, _LAB))


def _sections() -> Iterator[str]:
    known = families()
    for title, tag, text in _SECTIONS:
        of_tag = [family for family in known if family.tag == tag]
        yield f"## {title}: `{{{tag}}}`\n"
        if text:
            yield f"{text}\n"
        yield "| key | type | holds | size | time to live |\n| --- | --- | --- | --- | --- |"
        for family in of_tag:
            name = f"`{family.name}`"
            yield f"| {name} | {family.kind} | {family.holds} | {family.size} | {family.lives} |"
        yield ""


if __name__ == "__main__":
    sys.stdout.write(reference())
