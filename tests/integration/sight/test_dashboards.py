"""The dashboard and the alerts ask only for metrics that exist, in expressions that parse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.sight.promql import NotPromQL, parse

from dragoman.observability import Metrics
from dragoman.observability.quick_counters import QuickCounters

DEPLOY = Path(__file__).parents[3] / "deploy"
GUIDE = (Path(__file__).parents[3] / "docs" / "howto" / "operate.md").read_text()

SCRAPE = frozenset({"up"})
"""Metrics that Prometheus itself adds to each scrape."""
SCRAPE_LABELS = frozenset({"instance", "job"})


def alerts() -> list[dict[str, Any]]:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((DEPLOY / "grafana" / "live-plane.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in alerts())]


def families() -> dict[str, Metric]:
    """Every series' name, with the metric it belongs to."""
    found = {}
    for family in text_string_to_metric_families(Metrics().exposition().decode()):
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
        for ending in endings.get(family.type, [""]):
            found[family.name + ending] = family
    return found


@pytest.mark.parametrize("expression", queries())
def test_a_query_parses_and_asks_for_metrics_that_exist(expression: str) -> None:
    query = parse(expression)

    assert query.metrics
    assert query.metrics <= families().keys() | SCRAPE


@pytest.mark.parametrize("expression", queries())
def test_a_query_filters_by_labels_that_exist(expression: str) -> None:
    for metric, label in parse(expression).labels:
        assert label in SCRAPE_LABELS or label in labels_of(metric)


def labels_of(series: str) -> set[str]:
    """The labels that the metric of a series is declared with."""
    for declared in vars(Metrics()).values():
        metric = getattr(declared, "_metric", declared)
        if isinstance(metric, MetricWrapperBase) and series.startswith(metric._name):
            return set(metric._labelnames)
        if isinstance(metric, QuickCounters) and series == metric._name:
            return set(metric._labels)
    return set()


@pytest.mark.parametrize(
    "broken",
    ["", "sum(", "rate(x[5m)", "a b", "x{y}", 'x{y="z"', "sum by le (x)", "x >", "x[5 parsecs]"],
)
def test_what_is_no_expression_does_not_parse(broken: str) -> None:
    with pytest.raises(NotPromQL):
        parse(broken)


def test_every_alert_says_how_bad_it_is_what_happened_and_what_to_do() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "remedy"}, rule["alert"]


def test_alerts_have_names_of_their_own_and_stand_in_the_guide() -> None:
    names = [rule["alert"] for rule in alerts()]

    assert len(set(names)) == len(names)
    for name in names:
        assert f"| `{name}` |" in GUIDE


def test_prometheus_is_told_where_the_metrics_and_the_rules_are() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())

    assert config["rule_files"] == ["alerts.yml"]
    (scrape,) = config["scrape_configs"]
    assert (scrape["job_name"], scrape["metrics_path"]) == ("dragoman", "/metrics")


def test_panels_say_what_they_show_and_do_not_overlap() -> None:
    places = set()
    for panel in panels():
        assert panel["description"], panel["title"]
        spot = panel["gridPos"]
        for x in range(spot["x"], spot["x"] + spot["w"]):
            for y in range(spot["y"], spot["y"] + spot["h"]):
                assert (x, y) not in places, panel["title"]
                places.add((x, y))
