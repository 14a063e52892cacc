"""A small pytest plug-in: tests that hold a model to its last run.

`held_to_last` runs an experiment and compares it with the last finished run of the same name. The
runs are kept in the folder of ``--lab-dir``; on a build server, keep it between builds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import lab
from dragoman.errors import NotFound

HeldToLast = Callable[..., lab.RunResult]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lab-dir",
        default=".dragoman",
        help="Where runs are kept, to be compared with later ones.",
    )


@pytest.fixture
def lab_dir(request: pytest.FixtureRequest) -> Path:
    return Path(request.config.getoption("--lab-dir"))


@pytest.fixture
def held_to_last(lab_dir: Path, request: pytest.FixtureRequest) -> HeldToLast:
    """Runs an experiment; fails when it is worse than the last one by more than the margin."""

    def run(metric: str, *, margin: float | None = None, **asked: Any) -> lab.RunResult:
        result = lab.run(name=request.node.name, data_dir=lab_dir, **asked)
        try:
            compared = lab.compare(result, sort_by=metric)
        except NotFound:  # the first run has nothing before it
            return result
        # pytest shows what a failing test printed.
        print(compared)
        compared.assert_not_worse(metric, margin=margin)
        return result

    return run
