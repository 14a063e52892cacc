"""What programs print of targets and evaluators tells no secrets."""

from __future__ import annotations

from dragoman import lab
from dragoman.lab.model import TargetSpec, shown_settings


def test_a_printed_target_tells_no_header_and_no_key_of_its_address() -> None:
    target = lab.http(
        "https://user:hunter2@models.example/ask?token=hunter2",
        output="$.text",
        headers={"X-Team": "hunter2"},
        api_key="hunter2",
    )
    for told in (repr(target), str(target), f"{[target]}"):
        assert "hunter2" not in told
        assert "models.example" in told
        assert "X-Team" in told


def test_a_printed_evaluator_tells_no_header_either() -> None:
    judge = lab.llm_judge(
        url="https://models.example/v1", model="m", rubric="Be kind.", headers={"X-Team": "hunter2"}
    )
    assert "hunter2" not in repr(judge)
    assert "Be kind." in repr(judge)


def test_settings_without_secrets_are_shown_as_they_are() -> None:
    target = TargetSpec("recorded", {"output": "guess"})
    assert shown_settings(target.settings) == {"output": "guess"}
    assert repr(target) == "TargetSpec('recorded', {'output': 'guess'})"
