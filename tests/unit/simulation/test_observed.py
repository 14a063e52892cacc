"""A scenario made of a server's views: groups of nodes, service times, rates and sessions."""

from __future__ import annotations

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, RequestId, SessionId, TenantId
from dragoman.live.protocol import (
    AttemptState,
    AttemptTimes,
    AttemptView,
    JobClass,
    JobOutput,
    JobState,
    JobView,
    Languages,
    NodeHealth,
    NodeSlots,
    NodeView,
    SessionState,
    SessionView,
)
from dragoman.simulation import (
    InputKind,
    Measured,
    TrafficKind,
    observed_scenario,
    parse_scenario,
)


def node(
    name: str, *languages: str, slots: int = 4, status: NodeHealth = NodeHealth.READY
) -> NodeView:
    return NodeView(
        node_id=NodeId(name),
        status=status,
        reason=None,
        resources={},
        slots=NodeSlots(slots, 0, slots),
        pools=(),
        pools_total=0,
        cell=0,
        services=(),
        languages=Languages(languages, (), languages, languages),
        features=(),
        marks=(),
        last_seen="2026-11-16T09:00:00.000Z",
        instance_id=None,
    )


def job(
    number: int, request_id: str, at: str, node_id: str, took_ms: int, **options: object
) -> JobView:
    hour, minute, second = at.split(":")
    begun = f"2026-11-16T{hour}:{minute}:{second}.000+00:00"
    ended = (
        f"2026-11-16T{hour}:{minute}:{int(second) + took_ms // 1000:02}.{took_ms % 1000:03}+00:00"
    )
    attempt = AttemptView(
        attempt=1,
        attempt_id=AttemptId(f"a-{number}"),
        node_id=NodeId(node_id),
        state=AttemptState.FINISHED,
        at=AttemptTimes(begun, begun, begun, ended),
    )
    given = {"src_lang": "en", "tgt_lang": "es", "job_class": JobClass.LIVE, **options}
    return JobView(
        job_id=JobId(f"j-{number}"),
        request_id=RequestId(request_id),
        state=JobState.FINISHED,
        attempts=(attempt,),
        **given,  # type: ignore[arg-type]
    )


def session(name: str) -> SessionView:
    return SessionView(
        SessionId(name), TenantId("t"), "en", ("es",), SessionState.ACTIVE, InstanceId("i"), 3, 0
    )


def test_what_a_fleet_did_becomes_a_scenario_that_can_be_read() -> None:
    nodes = [
        node("a", "en", "es"),
        node("b", "es", "en"),
        node("c", "en", "fr", slots=2),
        node("gone", "en", "es", status=NodeHealth.OFFLINE),
    ]
    jobs = [
        job(1, "s-1/0", "09:00:00", "a", 200, result=JobOutput(text_asr="hi")),
        job(2, "s-1/1", "09:00:20", "b", 400, result=JobOutput(text_asr="hi")),
        job(3, "s-2/0", "09:01:40", "a", 300),
        job(4, "mine", "09:00:50", "c", 900, tgt_lang="fr"),
        job(5, "old", "07:00:00", "a", 900),
        job(6, "late", "09:00:10", "c", 100, tgt_lang="fr", job_class=JobClass.BATCH),
    ]
    text = observed_scenario(nodes, jobs, [session("s-1"), session("s-2")], "http://here")
    scenario = parse_scenario(text)
    spanish, french = scenario.fleet
    assert (spanish.nodes, spanish.slots, spanish.languages) == (2, 4, ("en", "es"))
    assert spanish.service_ms == Measured((0.0, 0.5, 1.0), (200.0, 300.0, 400.0))
    assert (french.nodes, french.slots, french.languages) == (1, 2, ("en", "fr"))
    batch, callers, speakers = scenario.traffic
    assert batch.kind is TrafficKind.BATCH
    assert callers.pairs == ("en:fr",)
    assert callers.jobs_per_second == 0.01
    assert speakers.sessions == 2
    assert speakers.input is InputKind.SPEECH
    # Two sessions said three things in a hundred seconds.
    assert speakers.pause_ms.mean == 66_667
    assert "5 jobs within 100 s" in text


def test_a_fleet_without_jobs_is_a_beginning_too() -> None:
    scenario = parse_scenario(observed_scenario([node("a", "de", "en")], [], [], "http://here"))
    assert scenario.fleet[0].languages == ("de", "en")
    assert scenario.traffic[0].pairs == ("de:en",)
    assert parse_scenario(observed_scenario([], [], [], "http://here")).traffic[0].sessions == 1
