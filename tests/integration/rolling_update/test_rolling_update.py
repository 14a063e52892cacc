"""A rolling update behind haproxy loses nothing: no session, no utterance, no result, no job.

DRAGOMAN_ROLLING_SESSIONS says how many sessions talk; `make chaos` has 200 of them.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from random import SystemRandom

import pytest
from tests.integration.cluster_chaos.checker import broken_laws
from tests.integration.cluster_chaos.records import Answered, Heard, Opened, Said
from tests.integration.rolling_update.update import INSTANCES, NEW, Outcome, update

pytestmark = [pytest.mark.redis, pytest.mark.slow]

SESSIONS = int(os.environ.get("DRAGOMAN_ROLLING_SESSIONS", "40"))
UTTERANCES_A_SECOND = float(os.environ.get("DRAGOMAN_ROLLING_UTTERANCES_A_SECOND", "25"))
"""Of all speakers together, so that a small machine can do it."""


@pytest.mark.timeout(900)
def test_instances_are_replaced_one_after_the_other_while_everybody_talks(tmp_path: Path) -> None:
    seed = int(os.environ.get("DRAGOMAN_ROLLING_SEED") or SystemRandom().randrange(1_000_000))
    print(f"seed {seed}, {SESSIONS} sessions")  # noqa: T201 - shown when the test fails
    outcome = asyncio.run(update(tmp_path, seed, SESSIONS, SESSIONS / UTTERANCES_A_SECOND))

    assert outcome.exit_codes == [0] * len(INSTANCES)
    assert outcome.versions == [NEW] * len(INSTANCES)
    assert not broken_laws(outcome.records), f"seed {seed}, records in {tmp_path}"
    _nothing_is_missing(outcome)
    _every_session_goes_on(outcome)
    assert not [text for text in (*outcome.logs, *outcome.errors) if "Traceback" in text]
    print(_figures(outcome))  # noqa: T201 - shown by `make chaos`


def _nothing_is_missing(outcome: Outcome) -> None:
    """Every utterance has a result for each target, and every job succeeded."""
    heard = [record for record in outcome.records if isinstance(record, Heard)]
    assert not [record for record in heard if record.reason is not None]
    answered = [record for record in outcome.records if isinstance(record, Answered)]
    assert {record.outcome for record in answered} <= {None, "success"}


def _every_session_goes_on(outcome: Outcome) -> None:
    """Each speaker has one session from the first to the last, and many changed their instance."""
    opened = [record for record in outcome.records if isinstance(record, Opened)]
    sessions = {(record.speaker, record.session_id) for record in opened}
    assert len(sessions) == SESSIONS
    resumed = [record for record in opened if record.resumed]
    assert len(opened) == SESSIONS + len(resumed)
    # Each instance had some of them, and each of those had to go elsewhere.
    assert len({record.speaker for record in resumed}) >= SESSIONS / 2
    assert {record.instance_id for record in opened} == set(INSTANCES)


def _figures(outcome: Outcome) -> str:
    counts = Counter(type(record).__name__ for record in outcome.records)
    said = {
        (record.session_id, record.index) for record in outcome.records if isinstance(record, Said)
    }
    ends = {
        (record.session_id, record.number)
        for record in outcome.records
        if isinstance(record, Heard)
    }
    resumed = sum(isinstance(record, Opened) and record.resumed for record in outcome.records)
    return (
        f"{SESSIONS} sessions, {len(said)} utterances, {len(ends)} results "
        f"({counts['Heard']} heard), {resumed} resumptions, {counts['Asked']} requests of callers; "
        f"the update took {outcome.update_seconds:.0f} s"
    )
