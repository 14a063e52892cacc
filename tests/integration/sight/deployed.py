"""What is deployed to watch Dragoman with: dashboards, alerts, their tests and their runbook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

REPOSITORY = Path(__file__).parents[3]
PROMETHEUS = REPOSITORY / "deploy" / "prometheus"
DASHBOARDS = sorted((REPOSITORY / "deploy" / "grafana").glob("*.json"))
ALERT_TESTS = sorted(PROMETHEUS.glob("*_test.yml"))
RUNBOOK = REPOSITORY / "docs" / "howto" / "runbook.md"


def alerts() -> list[dict[str, Any]]:
    rules = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


def alert_tests() -> list[dict[str, Any]]:
    return [test for path in ALERT_TESTS for test in yaml.safe_load(path.read_text())["tests"]]


def panels(dashboard: Path) -> list[dict[str, Any]]:
    found = json.loads(dashboard.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def shown() -> list[str]:
    """The query of every panel, each once."""
    found = (
        target["expr"]
        for dashboard in DASHBOARDS
        for panel in panels(dashboard)
        for target in panel["targets"]
    )
    return list(dict.fromkeys(found))


def queries() -> list[str]:
    return [*shown(), *(rule["expr"] for rule in alerts())]
