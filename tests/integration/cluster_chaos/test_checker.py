"""The checker sees each law broken, and sees nothing where there is a cause."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.integration.cluster_chaos.checker import broken_laws
from tests.integration.cluster_chaos.faults import Kind
from tests.integration.cluster_chaos.instances import RESUME_GRACE_SECONDS
from tests.integration.cluster_chaos.records import (
    Answered,
    Asked,
    Closed,
    Fault,
    Gave,
    GaveUp,
    Heard,
    JobSeen,
    LeftBehind,
    NodeBegan,
    NodeJoined,
    NodeParted,
    Opened,
    Parted,
    Record,
    Said,
    Stalled,
    Took,
    TurnedAway,
)
from tests.integration.cluster_chaos.story import AFTERMATH_SECONDS, EXPLAINS_SECONDS


def broken(*records: Record) -> set[str]:
    """The names of the laws that these records break."""
    return {found.partition(":")[0] for found in broken_laws(records)}


def fault(kind: Kind, whom: str, at: float, seconds: float = 0.0) -> Fault:
    return Fault(at=at, kind=kind, whom=whom, until=at + seconds)


# --- nodes ---------------------------------------------------------------------------------------


def began(at: float = 0, slots: int = 1, node_id: str = "n0.0") -> NodeBegan:
    return NodeBegan(at=at, node_id=node_id, slots=slots)


def took(at: float, attempt_id: str, node_id: str = "n0.0", job_id: str = "j") -> Took:
    return Took(at=at, node_id=node_id, job_id=job_id, attempt_id=attempt_id)


def gave(at: float, attempt_id: str, node_id: str = "n0.0", job_id: str = "j") -> Gave:
    return Gave(at=at, node_id=node_id, job_id=job_id, attempt_id=attempt_id, code=None)


def test_a_node_that_works_on_one_thing_after_the_other_breaks_no_law() -> None:
    story = (began(), took(1, "x", job_id="j1"), gave(2, "x", job_id="j1"), took(3, "y"))
    assert not broken(*story)


def test_a_node_with_more_in_hand_than_slots_is_seen() -> None:
    story = (began(), took(1, "x", job_id="j1"), took(2, "y", job_id="j2"))
    assert broken(*story) == {"no_node_is_given_more_than_it_can_take"}


def test_what_a_killed_process_had_in_hand_does_not_count_for_its_next_life() -> None:
    assert not broken(began(), took(1, "x", job_id="j1"), began(2), took(3, "y", job_id="j2"))


def test_a_node_that_had_to_turn_something_away_is_seen() -> None:
    refused = TurnedAway(at=50, node_id="n0.0", job_id="j", attempt_id="x", code="NODE_OVERLOADED")
    law = {"no_node_is_given_more_than_it_can_take"}
    assert broken(refused) == law
    assert broken(fault(Kind.KILL_INSTANCE, "a", 49), refused) == law
    assert not broken(fault(Kind.EMPTY_REDIS, "redis", 49), refused)
    too_long_ago = 50 - AFTERMATH_SECONDS - 1
    assert broken(fault(Kind.EMPTY_REDIS, "redis", too_long_ago), refused) == law


def test_a_node_that_leaves_may_turn_things_away() -> None:
    refused = TurnedAway(at=1, node_id="n0.0", job_id="j", attempt_id="x", code="NODE_UNAVAILABLE")
    assert not broken(refused)


def test_an_attempt_that_is_taken_twice_is_seen() -> None:
    story = (took(1, "x"), gave(2, "x"), took(3, "x"), gave(4, "x"))
    assert broken(began(), *story) == {"no_attempt_is_worked_on_twice"}


def test_a_job_taken_from_a_live_node_is_seen() -> None:
    joined = NodeJoined(at=0, node_id="n0.0", instance_id="a")
    story = (
        *(began(), joined, began(node_id="n1.0")),
        *(took(50, "x"), took(51, "y", "n1.0"), gave(52, "x"), gave(53, "y", "n1.0")),
    )
    law = {"nothing_is_taken_from_a_live_node"}
    assert broken(*story) == law
    assert broken(*story, fault(Kind.KILL_NODES, "n2", 50)) == law
    assert broken(*story, fault(Kind.KILL_INSTANCE, "b", 50)) == law
    # Whoever was given it later had long been well again.
    assert broken(*story, fault(Kind.PAUSE_NODES, "n1", 38, seconds=5)) == law
    for cause in (
        fault(Kind.PAUSE_NODES, "n0", 45, seconds=5),
        fault(Kind.PAUSE_NODES, "n1", 45, seconds=5),
        fault(Kind.KILL_INSTANCE, "a", 40),
        fault(Kind.PAUSE_REDIS, "redis", 50),
        NodeParted(at=50.5, node_id="n0.0", code=1006),
    ):
        assert not broken(*story, cause)


TAKEN = "nothing_is_taken_from_a_live_node"

TAKEN_FROM_A_LIVE_NODE: Sequence[Record] = (
    *(began(), NodeJoined(at=0, node_id="n0.0", instance_id="a")),
    *(began(node_id="n1.0"), NodeJoined(at=0, node_id="n1.0", instance_id="b")),
    Opened(at=0, speaker="s0.1", session_id="s", instance_id="c", resumed=False),
    Said(at=46.9, speaker="s0.1", session_id="s", index=0, text="hi"),
    *(
        took(50, "x"),
        JobSeen(at=50, node_id="n0.0", job_id="j", text="hi", session_id="s", index=0),
    ),
    *(took(51, "y", "n1.0"), gave(52, "x"), gave(53, "y", "n1.0")),
    Heard(at=54, speaker="s0.1", session_id="s", number=1, index=0, tgt_lang="es", text="hi in es"),
    Closed(at=60, speaker="s0.1", session_id="s"),
)
"""n0.0 at instance a works on a job of c, and n1.0 at b is given the same job. d has no part."""


def stalled(whom: str, at: float, seconds: float) -> Stalled:
    return Stalled(at=at, whom=whom, until=at + seconds)


@pytest.mark.parametrize("whom", ["n0", "a", "n1", "b", "c", "redis", "cables"])
def test_a_job_may_be_given_to_another_node_when_one_on_its_way_stood_still_for_long(
    whom: str,
) -> None:
    assert broken(*TAKEN_FROM_A_LIVE_NODE) == {TAKEN}
    assert not broken(*TAKEN_FROM_A_LIVE_NODE, stalled(whom, 47.5, EXPLAINS_SECONDS))


@pytest.mark.parametrize("whom", ["d", "n2", "s0", "s1"])
def test_a_process_that_the_job_does_not_depend_on_excuses_nothing(whom: str) -> None:
    elsewhere = NodeJoined(at=0, node_id="n2.0", instance_id="d")
    assert broken(*TAKEN_FROM_A_LIVE_NODE, elsewhere, stalled(whom, 40, 20)) == {TAKEN}


def test_a_stall_that_is_too_short_for_a_time_limit_to_pass_excuses_nothing() -> None:
    short = EXPLAINS_SECONDS - 0.1
    assert broken(*TAKEN_FROM_A_LIVE_NODE, stalled("a", 48, short)) == {TAKEN}
    both_at_once = (stalled("a", 48, short), stalled("c", 48, short))
    assert broken(*TAKEN_FROM_A_LIVE_NODE, *both_at_once) == {TAKEN}
    one_after_the_other = (stalled("a", 47.5, short), stalled("c", 49.5, 0.2))
    assert not broken(*TAKEN_FROM_A_LIVE_NODE, *one_after_the_other)


def test_a_stall_before_the_attempt_or_after_its_loss_excuses_nothing() -> None:
    assert broken(*TAKEN_FROM_A_LIVE_NODE, stalled("a", 30, 17)) == {TAKEN}
    assert broken(*TAKEN_FROM_A_LIVE_NODE, stalled("a", 51, 20)) == {TAKEN}


def test_a_stall_that_was_planned_excuses_only_what_the_plan_allows() -> None:
    # The plan allows the driver some seconds to catch up; n1 is where the job was given to.
    for kind, whom in ((Kind.PAUSE_INSTANCE, "c"), (Kind.PAUSE_NODES, "n1")):
        planned = fault(kind, whom, 30, seconds=9)
        measured = stalled(whom, 29.9, 9.2)
        assert broken(*TAKEN_FROM_A_LIVE_NODE, planned, measured) == {TAKEN}
        assert not broken(*TAKEN_FROM_A_LIVE_NODE, fault(kind, whom, 42, seconds=4))
    # What has no part in the job has none while it is stopped, either.
    elsewhere = NodeJoined(at=0, node_id="n2.0", instance_id="d")
    story = (*TAKEN_FROM_A_LIVE_NODE, elsewhere)
    for kind, whom in ((Kind.PAUSE_INSTANCE, "d"), (Kind.PAUSE_NODES, "n2")):
        planned = fault(kind, whom, 45, seconds=9)
        assert broken(*story, planned, stalled(whom, 45, 9)) == {TAKEN}


def test_a_planned_stall_does_not_make_other_faults_last_longer() -> None:
    paused = fault(Kind.PAUSE_NODES, "n0", 50 - AFTERMATH_SECONDS - 5, seconds=1)
    assert broken(*TAKEN_FROM_A_LIVE_NODE, paused) == {TAKEN}
    assert broken(*TAKEN_FROM_A_LIVE_NODE, paused, stalled("n0", paused.at, 1)) == {TAKEN}
    assert not broken(*TAKEN_FROM_A_LIVE_NODE, paused, stalled("n0", 33, 5))
    assert broken(*TAKEN_FROM_A_LIVE_NODE, paused, stalled("s1", 33, 5)) == {TAKEN}


def test_a_job_of_a_caller_is_driven_where_it_was_asked_for() -> None:
    story: Sequence[Record] = (
        *(began(), NodeJoined(at=0, node_id="n0.0", instance_id="a")),
        *(began(node_id="n1.0"), NodeJoined(at=0, node_id="n1.0", instance_id="b")),
        Asked(at=46, request_id="s0.caller0/3", instance_id="c"),
        *(took(50, "x"), JobSeen(at=50, node_id="n0.0", job_id="j", text="s0.caller0/3 asks")),
        *(took(51, "y", "n1.0"), gave(52, "x"), gave(53, "y", "n1.0")),
        NodeJoined(at=0, node_id="n2.0", instance_id="d"),
    )
    assert broken(*story, stalled("d", 47, 4)) == {TAKEN}
    assert not broken(*story, stalled("c", 47, 4))


def test_a_job_whose_driver_was_not_well_may_be_driven_by_any_instance() -> None:
    story = (*TAKEN_FROM_A_LIVE_NODE, NodeJoined(at=0, node_id="n2.0", instance_id="d"))
    killed = fault(Kind.KILL_INSTANCE, "c", 35)
    assert broken(*story, killed) == {TAKEN}
    assert not broken(*story, killed, stalled("d", 47.5, EXPLAINS_SECONDS))


def test_no_lateness_excuses_too_much_work() -> None:
    over = (began(), took(1, "x", job_id="j1"), took(2, "y", job_id="j2"))
    law = {"no_node_is_given_more_than_it_can_take"}
    assert broken(*over, Stalled(at=0, whom="a", until=9)) == law


def test_nothing_is_mended_while_the_machine_is_starved() -> None:
    refused = TurnedAway(at=50, node_id="n0.0", job_id="j", attempt_id="x", code="NODE_OVERLOADED")
    emptied = fault(Kind.EMPTY_REDIS, "redis", 50 - AFTERMATH_SECONDS - 5)
    assert broken(emptied, refused)
    starved = (Stalled(at=35, whom="a", until=39), Stalled(at=36, whom="b", until=41))
    assert not broken(emptied, *starved, refused)
    assert broken(emptied, starved[0], refused), "four seconds do not make up for five"


def test_a_job_that_failed_may_be_given_to_another_node() -> None:
    story = (took(1, "x"), gave(2, "x"), took(3, "y", "n1.0"), gave(4, "y", "n1.0"))
    assert not broken(began(), began(node_id="n1.0"), *story)


def test_a_node_that_is_sent_away_for_another_of_its_name_is_seen() -> None:
    parted = NodeParted(at=1, node_id="n0.0", code=4409)
    assert broken(parted) == {"nothing_is_taken_from_a_live_node"}


# --- sessions ------------------------------------------------------------------------------------


def opened(at: float = 0, session_id: str = "s", resumed: bool = False) -> Opened:
    return Opened(at=at, speaker="s0.1", session_id=session_id, instance_id="a", resumed=resumed)


def said(at: float, index: int, session_id: str = "s") -> Said:
    return Said(at=at, speaker="s0.1", session_id=session_id, index=index, text=f"word {index}")


def heard(
    at: float,
    number: int,
    index: int,
    reason: str | None = None,
    text: str | None = None,
    session_id: str = "s",
) -> Heard:
    result = None if reason is not None else text or f"word {index} in es"
    return Heard(
        at=at,
        speaker="s0.1",
        session_id=session_id,
        number=number,
        index=index,
        tgt_lang="es",
        text=result,
        reason=reason,
    )


def closed(at: float = 100, session_id: str = "s") -> Closed:
    return Closed(at=at, speaker="s0.1", session_id=session_id)


def parted(at: float, code: int = 1006) -> Parted:
    return Parted(at=at, speaker="s0.1", code=code)


SPOKEN: Sequence[Record] = (opened(), said(1, 0), said(2, 1))


def test_a_session_through_a_lost_connection_breaks_no_law() -> None:
    again = (parted(4), opened(5, resumed=True), said(6, 1), heard(7, 1, 0), heard(8, 2, 1))
    assert not broken(*SPOKEN, heard(3, 1, 0), *again, closed())


@pytest.mark.parametrize(
    ("ends", "law"),
    [
        ((heard(3, 1, 0),), "every_utterance_ends_once"),
        ((heard(3, 1, 0), heard(4, 2, 1), heard(5, 3, 1)), "every_utterance_ends_once"),
        ((heard(3, 1, 1), heard(4, 2, 0)), "order_is_kept"),
        ((heard(3, 1, 0), heard(4, 3, 1)), "order_is_kept"),
        ((heard(3, 1, 0), heard(4, 2, 1, text="word 0 in es")), "results_are_their_own"),
        ((heard(3, 1, 0), heard(4, 2, 1), heard(5, 3, 2)), "results_are_their_own"),
        (
            (heard(3, 1, 0), heard(4, 2, 1, reason="gap_timeout")),
            "nothing_is_missing_in_quiet_times",
        ),
    ],
)
def test_ends_that_are_wrong_are_seen(ends: Sequence[Record], law: str) -> None:
    assert broken(*SPOKEN, *ends, closed()) == {law}


MISSING = "nothing_is_missing_in_quiet_times"

MISSING_IN_QUIET_TIMES: Sequence[Record] = (
    *(opened(), Opened(at=0, speaker="s1.1", session_id="t", instance_id="b", resumed=False)),
    *(began(), NodeJoined(at=0, node_id="n0.0", instance_id="c")),
    said(40, 0),
    JobSeen(at=41, node_id="n0.0", job_id="j", text="word 0", session_id="s", index=0),
    *(took(41, "x"), gave(42, "x")),
    *(heard(47, 1, 0, reason="gap_timeout"), closed()),
    Closed(at=100, speaker="s1.1", session_id="t"),
)
"""An utterance of s0.1 at instance a, which n0.0 at c worked on. b, n1 and s1 have no part."""


@pytest.mark.parametrize("whom", ["s0", "a", "n0", "c", "redis", "cables"])
def test_a_result_may_be_missing_when_one_on_its_way_stood_still_for_long(whom: str) -> None:
    assert broken(*MISSING_IN_QUIET_TIMES) == {MISSING}
    assert not broken(*MISSING_IN_QUIET_TIMES, stalled(whom, 42, EXPLAINS_SECONDS))
    assert broken(*MISSING_IN_QUIET_TIMES, stalled(whom, 42, 1)) == {MISSING}, "too short"
    assert broken(*MISSING_IN_QUIET_TIMES, stalled(whom, 36, 3.9)) == {MISSING}, "too early"
    assert broken(*MISSING_IN_QUIET_TIMES, stalled(whom, 47, 9)) == {MISSING}, "too late"


@pytest.mark.parametrize("whom", ["b", "n1", "s1"])
def test_no_result_is_missing_because_a_process_without_a_part_stood_still(whom: str) -> None:
    assert broken(*MISSING_IN_QUIET_TIMES, stalled(whom, 38, 9)) == {MISSING}


def test_no_result_is_missing_for_a_planned_stall_of_long_ago() -> None:
    paused = fault(Kind.PAUSE_INSTANCE, "a", 40 - AFTERMATH_SECONDS - 9, seconds=8)
    measured = stalled("a", paused.at, paused.until - paused.at)
    assert broken(*MISSING_IN_QUIET_TIMES, paused, measured) == {MISSING}


def test_a_result_may_be_missing_when_every_node_that_was_tried_failed() -> None:
    def failed(number: int) -> tuple[Record, ...]:
        at = 43 + number
        end = Gave(at=at + 0.5, node_id="n0.0", job_id="j", attempt_id=f"f{number}", code="NO")
        return took(at, f"f{number}"), end

    two = (*failed(0), *failed(1))
    assert broken(*MISSING_IN_QUIET_TIMES, *two) == {MISSING}
    assert not broken(*MISSING_IN_QUIET_TIMES, *two, *failed(2))


def test_a_number_that_stands_for_two_ends_is_seen() -> None:
    story = (*SPOKEN, heard(3, 1, 0), heard(4, 2, 1), heard(5, 2, 0), closed())
    assert "what_comes_again_is_the_same" in broken(*story)


def test_a_result_that_is_no_longer_kept_may_come_again_as_missing() -> None:
    resumed = (fault(Kind.CUT_DOOR, "a", 4), parted(4), opened(5, resumed=True))
    again = heard(6, 2, 1, reason="gap_timeout")
    assert not broken(*SPOKEN, heard(3, 1, 0), heard(3.5, 2, 1), *resumed, again, closed())


def test_a_session_that_never_closes_is_seen() -> None:
    assert broken(*SPOKEN, heard(3, 1, 0), heard(4, 2, 1)) == {"every_utterance_ends_once"}


def test_a_session_that_is_lost_without_cause_is_seen() -> None:
    def new(at: float) -> tuple[Record, ...]:
        result = heard(at + 2, 1, 0, session_id="t")
        return (opened(at, "t"), said(at + 1, 0, "t"), result, closed(session_id="t"))

    law = {"no_session_is_lost_without_cause"}
    assert broken(*SPOKEN, parted(5), *new(6)) == law
    assert broken(*SPOKEN, parted(5), fault(Kind.KILL_INSTANCE, "a", 5), *new(6)) == law
    assert not broken(*SPOKEN, parted(5), fault(Kind.FAIL_OVER_REDIS, "redis", 5), *new(6))
    late = 5 + RESUME_GRACE_SECONDS
    assert not broken(*SPOKEN, parted(5), *new(late))
    knocked_in_vain = (parted(5), parted(20), parted(late - 1))
    assert not broken(*SPOKEN, *knocked_in_vain, *new(late)), "it is away since it left first"
    back = (parted(5), opened(6, resumed=True), parted(late - 1))
    assert broken(*SPOKEN, *back, *new(late)) == law, "it had been back"


def test_a_speaker_that_is_sent_away_for_another_is_seen() -> None:
    story = (opened(), parted(1, code=4409), opened(2, resumed=True), closed())
    assert broken(*story) == {"no_session_is_taken_from_a_live_speaker"}


# --- jobs, and the rest --------------------------------------------------------------------------


def answered(at: float, job_id: str, outcome: str | None, text: str = "hi in es") -> Answered:
    return Answered(
        at=at, request_id="r", wanted="hi in es", job_id=job_id, outcome=outcome, text=text
    )


def test_a_job_that_waits_and_then_succeeds_breaks_no_law() -> None:
    assert not broken(answered(1, "j", None), answered(2, "j", "success"))


def test_a_request_that_failed_may_be_asked_for_again() -> None:
    assert not broken(answered(1, "j", "failed", ""), answered(2, "k", "success"))


@pytest.mark.parametrize(
    "second",
    [
        answered(2, "j", "failed"),
        answered(2, "k", "success"),
        answered(2, "j", "success", text="ho in es"),
    ],
)
def test_a_request_with_two_ends_is_seen(second: Answered) -> None:
    assert broken(answered(1, "j", "success"), second) == {"a_request_is_one_job_with_one_end"}


def test_a_request_may_be_done_twice_when_redis_forgot_the_first_time() -> None:
    story = (answered(1, "j", "success"), answered(3, "k", "success"))
    assert not broken(fault(Kind.EMPTY_REDIS, "redis", 2), *story)


def test_speakers_that_gave_up_and_leftovers_are_seen() -> None:
    assert broken(GaveUp(at=1, who="s0.1", why="?")) == {"nobody_gives_up"}
    left = LeftBehind(at=1, seen_at="a", what="slots", count=1)
    assert broken(left) == {"nothing_is_left_behind"}
