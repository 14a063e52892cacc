"""Where the time of an utterance went, as a tracing system sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, TraceFlags
from tests.simulation.speakers import open_speaker
from tests.simulation.world import World, play

from dragoman.observability import Tracing, read_traceparent
from dragoman.observability.otlp import OtlpExit
from dragoman.testing import JobEnding, seconds

TRACE = "0af7651916cd43dd8448eb211c80319c"
MS = 1_000_000
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def traced(story: Callable[[World], Awaitable[None]], **options: Any) -> list[ReadableSpan]:
    """Act a story out, and answer the spans it left, in the order they ended."""
    exporter = InMemorySpanExporter()
    play(
        story,
        tracing=lambda clock: Tracing(OtlpExit(SimpleSpanProcessor(exporter), "here"), clock),
        **options,
    )
    return list(exporter.get_finished_spans())


def names(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def trace_id(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}"


def code(span: ReadableSpan) -> object:
    return (span.attributes or {}).get("error.type")


JOB = ["received", "claimed", "reserved", "dispatched", "acked", "running", "finished"]


def test_a_spoken_utterance_is_told_from_its_first_sound_to_its_delivery() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(2))
        speaker = await open_speaker(world, trace_id=TRACE)
        await speaker.speak(100)
        await world.pass_time(0.1)
        await speaker.speak(100)
        await speaker.until_ended(1)

    job, utterance = traced(story)
    assert (utterance.name, names(utterance)) == ("utterance", ["received", "cut", "delivered"])
    assert (job.name, names(job)) == ("job", JOB)
    assert utterance.parent is None
    assert job.parent == utterance.context
    assert trace_id(job) == trace_id(utterance) == TRACE
    times = [event.timestamp for event in (*utterance.events[:2], *job.events)]
    assert times == sorted(times)
    heard, cut, delivered = (event.timestamp for event in utterance.events)
    assert 1100 * MS <= cut - heard < 1300 * MS, "the last sound, then a pause"
    assert 2000 * MS <= delivered - cut < 2100 * MS, "the node worked for two seconds"
    assert (utterance.events[1].attributes or {})["reason"] == "pause"
    assert (code(job), code(utterance)) == (None, None)


def test_nodes_learn_the_trace_of_a_job() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        named = await open_speaker(world, trace_id=TRACE)
        labelled = await open_speaker(world, trace_id="my call 7")
        plain = await open_speaker(world)
        for speaker in (named, labelled, plain):
            await speaker.say()
            await speaker.until_ended(1)
        await plain.say()
        await plain.until_ended(2)
        told = [assign.trace_id for assign in node.assigned]
        parents.extend(assign.traceparent for assign in node.assigned)
        assert told[:2] == [TRACE, "my call 7"]
        assert [len(bytes.fromhex(trace)) for trace in told[2:]] == [16, 16]
        assert told[2] != told[3], "an utterance is a trace of its own"
        seen.extend(told)

    seen: list[str] = []
    parents: list[str | None] = []
    spans = traced(story)
    jobs = [span for span in spans if span.name == "job"]
    assert [read_traceparent(parent) for parent in parents] == [
        SpanContext(
            span.context.trace_id, span.context.span_id, is_remote=True, trace_flags=SAMPLED
        )
        for span in jobs
    ], "a node's own spans belong under the job's"
    assert [(span.attributes or {})["dragoman.trace_id"] for span in jobs] == seen
    assert [trace_id(jobs[index]) for index in (0, 2, 3)] == [seen[0], seen[2], seen[3]]


def test_an_utterance_for_two_targets_is_over_when_both_have_theirs() -> None:
    async def story(world: World) -> None:
        languages = ("zh", "en", "fr")
        await world.node("n", asr=languages, nmt=languages, tts=languages)
        speaker = await open_speaker(world, tgt_langs=("en", "fr"))
        await speaker.say()
        await speaker.until_ended(2)

    *jobs, utterance = traced(story)
    assert [job.name for job in jobs] == ["job", "job"]
    assert [job.parent for job in jobs] == [utterance.context] * 2
    assert names(utterance) == ["received", "delivered", "delivered"]


def test_an_utterance_that_has_no_result_for_one_of_its_targets_went_wrong() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(1))
        speaker = await open_speaker(world, tgt_langs=("xx", "en"))
        await speaker.say()
        await speaker.until_ended(2)

    utterance = traced(story)[-1]
    assert names(utterance) == ["received", "missing", "delivered"]
    assert code(utterance) == "PAIR_UNSUPPORTED"


def test_while_nothing_is_traced_nodes_are_told_of_no_span() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        await (await world.submit("r")).end()
        assert [assign.traceparent for assign in node.assigned] == [None]

    play(story)


def test_a_failover_is_told() -> None:
    async def story(world: World) -> None:
        await world.node("bad", answer=JobEnding.RETRYABLE)
        errand = await world.submit("1", trace_id=TRACE, preferred_node_id="bad", may_wait=True)
        await world.node("good")
        await errand.end()

    (job,) = traced(story)
    assert names(job).count("reserved") == 2
    assert names(job).count("failover") == 1
    nodes = [(event.attributes or {}).get("node_id") for event in job.events]
    assert [node for node in nodes if node] == ["bad", "good"]


def test_what_is_refused_or_fails_ends_with_its_code() -> None:
    async def story(world: World) -> None:
        assert (await world.submit("1", trace_id=TRACE)).refusal is not None
        speaker = await open_speaker(world)
        await speaker.say()
        await speaker.until_ended(1)

    refused, job, utterance = traced(story)
    assert [code(span) for span in (refused, job, utterance)] == ["PAIR_UNSUPPORTED"] * 3
    assert names(refused) == ["received", "claimed", "finished"]
    assert names(utterance) == ["received", "missing"]


def test_a_session_that_is_gone_leaves_no_open_span() -> None:
    async def story(world: World) -> None:
        await world.node("n", answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        await speaker.say()
        await world.until(lambda: world.plane.dispatcher.counts()["attempts"] == 1)
        speaker.cut()
        await world.until(lambda: not len(world.plane.sessions))
        await world.until(lambda: not world.plane.dispatcher.counts()["jobs"])

    by_name = {
        span.name: span for span in traced(story, scheduler__delivery__resume_grace_seconds=1)
    }
    assert code(by_name["utterance"]) == "SESSION_CLOSED"
    assert code(by_name["job"]) == "JOB_CANCELLED"


def test_spans_tell_nothing_of_what_was_said() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.say("MARKER-7f3a")
        await speaker.until_ended(1)

    spans = traced(story)
    assert len(spans) == 2
    assert not any("MARKER" in span.to_json() for span in spans)
