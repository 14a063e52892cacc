"""The page that people turn to in trouble leaves nothing out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import errors
from dragoman.live.protocol import ExclusionReason

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "troubleshooting.md").read_text()

OWN_MODULE = Path(errors.__file__).read_text()
LIVE = OWN_MODULE[OWN_MODULE.index("# --- live plane") : OWN_MODULE.index("# --- lab plane")]


def live_codes() -> list[str]:
    """The codes of the errors that the live plane answers with."""
    return sorted(
        code for code, error in errors.BY_CODE.items() if f"class {error.__name__}(" in LIVE
    )


@pytest.mark.parametrize("reason", list(ExclusionReason))
def test_every_reason_for_leaving_a_node_out_is_explained(reason: ExclusionReason) -> None:
    assert f"| `{reason}` |" in PAGE


@pytest.mark.parametrize("code", [*live_codes(), "INTERNAL_ERROR"])
def test_every_error_code_is_explained(code: str) -> None:
    assert f"| `{code}` |" in PAGE


def test_the_reasons_stand_in_the_order_in_which_they_are_looked_at() -> None:
    places = [PAGE.index(f"| `{reason}` |") for reason in ExclusionReason]

    assert places == sorted(places)
