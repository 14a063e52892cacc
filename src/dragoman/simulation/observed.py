"""A scenario made of what a running fleet does: its nodes, its last jobs and its sessions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dragoman.live.protocol import AttemptView, JobClass, JobView, NodeHealth, NodeView, SessionView
from dragoman.simulation.distributions import Distribution, Exponential, Fixed, Measured

WINDOW_SECONDS = 3_600.0
_MOST_POINTS = 21
_FEW_JOBS = 20
_SESSION_REQUEST = re.compile(r"(s-[^/]+)/\d+")
"""The request_id that a session gives to an utterance; no other caller may use this form."""

GroupKey = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...], int]


@dataclass
class _Group:
    """Nodes that are alike, and how long they took."""

    name: str
    nodes: int = 0
    service_ms: list[float] = field(default_factory=list)


@dataclass
class _Stream:
    """Jobs of one kind for one pair."""

    began: list[float] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    is_speech: bool = False


StreamKey = tuple[str, str, str]
"""Kind, source, target."""


def observed_scenario(
    nodes: Sequence[NodeView],
    jobs: Iterable[JobView],
    sessions: Sequence[SessionView],
    source: str,
) -> str:
    """The scenario file of a fleet, from the views of its server.

    Only jobs of the last hour before the newest one count, and only as many as the server still
    remembers.
    """
    groups, group_of = _groups(nodes)
    streams = _streams(jobs, groups, group_of)
    every = sorted(time for stream in streams.values() for time in stream.began)
    span = max(1.0, every[-1] - every[0]) if every else 0.0
    lines = [
        f"# Made of what {source} showed: {len(nodes)} nodes, {len(every)} jobs within"
        f" {span:.0f} s, {len(sessions)} open sessions.",
        "# A server remembers jobs for job_retention_seconds; raise it to see a whole hour.",
        "",
        "[simulation]",
        'name = "observed"',
        f"duration_seconds = {max(600.0, round(span)):g}",
        "",
    ]
    for key, group in groups.items():
        lines += _fleet_lines(key, group)
    for stream_key, stream in sorted(streams.items()):
        lines += _traffic_lines(stream_key, stream, span, sessions)
    if not streams:
        lines += [
            "# The server remembers no jobs: this traffic is only a beginning.",
            "[[traffic]]",
            f'pair = "{_any_pair(nodes)}"',
            f"sessions = {max(1, len(sessions))}",
            "",
        ]
    return "\n".join(lines)


def _groups(nodes: Sequence[NodeView]) -> tuple[dict[GroupKey, _Group], dict[str, _Group]]:
    groups: dict[GroupKey, _Group] = {}
    group_of: dict[str, _Group] = {}
    for node in sorted(nodes, key=lambda node: node.node_id):
        if node.status is NodeHealth.OFFLINE:
            continue
        known = node.languages
        key = (
            tuple(sorted(known.asr_langs)),
            tuple(sorted(known.semantic_langs)),
            tuple(sorted(known.nmt_langs)),
            tuple(sorted(known.tts_langs)),
            node.slots.total,
        )
        group = groups.setdefault(key, _Group(f"group-{len(groups) + 1}"))
        group.nodes += 1
        group_of[node.node_id] = group
    return groups, group_of


def _streams(
    jobs: Iterable[JobView], groups: dict[GroupKey, _Group], group_of: dict[str, _Group]
) -> dict[StreamKey, _Stream]:
    seen = [(job, _began(job)) for job in jobs if job.attempts]
    newest = max((began for _, began in seen if began is not None), default=0.0)
    streams: dict[StreamKey, _Stream] = defaultdict(_Stream)
    for job, began in seen:
        if began is None or began < newest - WINDOW_SECONDS:
            continue
        of_session = _SESSION_REQUEST.fullmatch(job.request_id)
        kind = "sessions" if of_session else "jobs"
        if job.job_class is JobClass.BATCH:
            kind = "batch"
        stream = streams[kind, job.src_lang, job.tgt_lang]
        stream.began.append(began)
        if of_session:
            stream.sessions.add(of_session[1])
        if job.result is not None:
            stream.is_speech |= job.result.text_asr is not None
        for attempt in job.attempts:
            took = _took_ms(attempt)
            group = group_of.get(attempt.node_id)
            if took is not None and group is not None:
                group.service_ms.append(took)
    return dict(streams)


def _fleet_lines(key: GroupKey, group: _Group) -> list[str]:
    asr, semantic, nmt, tts, slots = key
    lines = ["[[fleet]]", f'name = "{group.name}"', f"nodes = {group.nodes}", f"slots = {slots}"]
    if asr == nmt == tts:
        lines.append(f"languages = {_list(asr)}")
    else:
        lines += [f"asr = {_list(asr)}", f"nmt = {_list(nmt)}", f"tts = {_list(tts)}"]
    if semantic:
        lines.append(f"semantic = {_list(semantic)}")
    if group.service_ms:
        few = "  # of few jobs" if len(group.service_ms) < _FEW_JOBS else ""
        lines.append(f"service_ms = {_shape(group.service_ms).as_toml()}{few}")
    else:
        lines.append("# No job of these nodes is remembered: service_ms is the default.")
    return [*lines, ""]


def _traffic_lines(
    key: StreamKey, stream: _Stream, span: float, open_sessions: Sequence[SessionView]
) -> list[str]:
    kind, source, target = key
    lines = [
        "[[traffic]]",
        f'name = "{kind}-{source}-{target}"',
        f'kind = "{kind}"',
        f'pair = "{source}:{target}"',
        f'input = "{"speech" if stream.is_speech else "text"}"',
    ]
    if kind != "sessions":
        lines.append(f"jobs_per_second = {max(1, len(stream.began)) / max(span, 1.0):.4g}")
        if kind == "jobs":
            lines.append("waits = false  # true, if callers give wait_ms")
        return [*lines, ""]
    now_open = sum(1 for one in open_sessions if one.src_lang == source and target in one.tgt_langs)
    count = max(1, now_open or len(stream.sessions))
    gap_ms = 1000 * max(span, 1.0) * count / max(1, len(stream.began))
    # A server does not tell how long utterances were: the pauses count them in.
    lines.append("utterance_ms = 0")
    lines.append(f"sessions = {count}")
    lines.append(f"pause_ms = {Exponential(round(gap_ms)).as_toml()}")
    return [*lines, ""]


def _shape(values: Sequence[float]) -> Distribution:
    if len(values) == 1:
        return Fixed(values[0])
    return Measured.of_samples(values, _MOST_POINTS)


def _began(job: JobView) -> float | None:
    at = job.attempts[0].at.dispatched
    return _seconds(at) if at is not None else None


def _took_ms(attempt: AttemptView) -> float | None:
    """How long a node worked: from its acknowledgement to its result."""
    begun = attempt.at.accepted or attempt.at.dispatched
    if begun is None or attempt.at.finished is None or attempt.error is not None:
        return None
    return max(0.0, 1000 * (_seconds(attempt.at.finished) - _seconds(begun)))


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _list(tags: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{tag}"' for tag in tags) + "]"


def _any_pair(nodes: Sequence[NodeView]) -> str:
    for node in nodes:
        known = sorted(node.languages.nmt_langs)
        if len(known) > 1:
            return f"{known[0]}:{known[1]}"
    return "en:es"
