"""The server judges alerts as Prometheus does: both are fed with the series of promtool's tests."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from dragoman.observability.alerts import ELSEWHERE, RULES, WATCHED, AlertJudge, Labels, Looks

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"
RUNBOOK = Path(__file__).parents[3] / "docs" / "howto" / "runbook.md"

_STEP = re.compile(r"(-?[\d.]+)(?:([+-][\d.]+))?(?:x(\d+))?$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_ADDED_BY_PROMETHEUS = ("instance", "job")


def seconds(written: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    parts = re.findall(r"(\d+)([smhd])", written)
    return float(sum(int(count) * units[unit] for count, unit in parts))


def values(written: str) -> list[float]:
    """Promtool's short form: `1x3` is four ones, `0+10x2` is 0, 10, 20."""
    found: list[float] = []
    for part in written.split():
        match = _STEP.match(part)
        assert match is not None, part
        start, step, times = float(match[1]), float(match[2] or 0), int(match[3] or 0)
        found += [start + step * count for count in range(times + 1)]
    return found


def series(written: str) -> tuple[str, Labels]:
    name, _, labels = written.partition("{")
    pairs = (pair for pair in _LABEL.findall(labels) if pair[0] not in _ADDED_BY_PROMETHEUS)
    return name, tuple(sorted(pairs))


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def cases() -> list[Any]:
    # As text throughout: YAML takes 0x10, ten steps of zero, for a number.
    tests = yaml.load((FOLDER / "alerts_test.yml").read_text(), yaml.BaseLoader)["tests"]
    judged = {rule.name for rule in RULES}
    found = []
    for test in tests:
        for wanted in test["alert_rule_test"]:
            if wanted["alertname"] in judged:
                found.append(pytest.param(test, wanted, id=test["name"]))
    assert len(found) > 30
    return found


def test_every_alert_is_judged_here_or_said_not_to_be() -> None:
    judged = {rule.name for rule in RULES}
    assert judged | ELSEWHERE == set(alerts())
    assert not judged & ELSEWHERE


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_the_severity_patience_and_runbook_entry_of_its_alert(rule: Any) -> None:
    alert = alerts()[rule.name]
    assert rule.severity == alert["labels"]["severity"]
    assert rule.for_seconds == seconds(alert.get("for", "0s"))
    assert rule.runbook == alert["annotations"]["runbook_url"]
    assert f"### {rule.name}\n" in RUNBOOK.read_text(encoding="utf-8")


@pytest.mark.parametrize(("test", "wanted"), cases())
def test_an_alert_fires_and_is_silent_when_prometheus_says_so(
    test: dict[str, Any], wanted: dict[str, Any]
) -> None:
    interval = seconds(test["interval"])
    given: dict[tuple[str, Labels], list[float]] = {}
    instances = {match for one in test["input_series"] for match in _LABEL.findall(one["series"])}
    first = min((value for name, value in instances if name == "instance"), default="")
    for one in test["input_series"]:
        # A server judges itself; the series of others are not its own.
        own = (f'instance="{first}"', 'job="dragoman"')
        if all(label in one["series"] for label in own):
            given[series(one["series"])] = values(one["values"])
    assert {name for name, _ in given} <= WATCHED
    judge = AlertJudge()
    for look in range(int(seconds(wanted["eval_time"]) / interval) + 1):
        readings: dict[str, dict[Labels, float]] = {}
        for (name, labels), shown in given.items():
            if look < len(shown):
                readings.setdefault(name, {})[labels] = shown[look]
        judge.look(look * interval, readings)
    fires = [
        state for state in judge.states if state.firing and state.rule.name == wanted["alertname"]
    ]
    expected = [
        each for each in wanted["exp_alerts"] if each["exp_labels"].get("instance", first) == first
    ]
    assert len(fires) == len(expected)
    for state, alert in zip(fires, expected, strict=True):
        assert dict(state.about).items() <= alert["exp_labels"].items()
        assert state.summary


def test_a_condition_that_ends_is_forgotten() -> None:
    judge = AlertJudge()
    down: dict[str, dict[Labels, float]] = {"scheduler_ready": {(): 0.0}}
    up: dict[str, dict[Labels, float]] = {"scheduler_ready": {(): 1.0}}
    judge.look(0, down)
    assert [(state.rule.name, state.firing) for state in judge.states] == [
        ("DragomanNotReady", False)
    ]
    judge.look(290, up)
    assert judge.states == []
    judge.look(310, down)
    assert [state.firing for state in judge.states] == [False]
    judge.look(610, down)
    assert [state.firing for state in judge.states] == [True]


def test_looks_at_the_same_series_again_and_again_take_hardly_any_memory() -> None:
    looks = Looks()
    looks.add(0.0, many_series(0.0))
    tracemalloc.start()
    try:
        for number in range(1, 60):
            looks.add(15.0 * number, many_series(float(number)))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes / 59 < 4_000, "kept each time anew, a look takes 100 kB"
    assert looks.increase("changing", 15.0) == 1.0
    assert looks.total("steady") == 3 * 300


def test_a_series_that_is_new_does_not_make_the_others_new() -> None:
    looks = Looks()
    looks.add(0.0, labelled(300))
    tracemalloc.start()
    try:
        for number in range(1, 60):
            looks.add(15.0 * number, labelled(300 + number))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes / 59 < 8_000, "its labels and values are 6 kB; with all labels anew, 80 kB"


def labelled(count: int) -> dict[str, dict[Labels, float]]:
    return {"growing": {(("name", f"{number}.5"),): 1.0 for number in range(count)}}


def many_series(count: float) -> dict[str, dict[Labels, float]]:
    """What one look finds: each time other objects of the same labels."""
    steady: dict[Labels, float] = {
        (("le", f"{number}.5"), ("op", "steady")): 3.0 for number in range(300)
    }
    changing: dict[Labels, float] = {
        (("name", f"{number}"),): count * (number == 7) for number in range(200)
    }
    return {"steady": steady, "changing": changing}
