"""A schedule depends on its seed alone: not on the process, its load or the order of its sets."""

from __future__ import annotations

import os
import subprocess
import sys

TELL = """
from tests.simulation import cluster_chaos, cluster_session_chaos

for seed in (3, 11):
    print(cluster_chaos.run_schedule(seed))
    print(cluster_session_chaos.run_schedule(seed))
"""


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    # Sets of words are walked through in another order for each of these.
    one, another = _digests(hash_seed=1), _digests(hash_seed=2)
    assert one == another
    assert len(set(one)) == len(one) == 4, "different seeds told the same story"


def _digests(hash_seed: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TELL],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()
