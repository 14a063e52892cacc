"""The dashboard and the alerts ask only for metrics that exist, in expressions that parse."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.sight.deployed import (
    ALERT_TESTS,
    DASHBOARDS,
    PROMETHEUS,
    REPOSITORY,
    RUNBOOK,
    alert_tests,
    alerts,
    panels,
    queries,
)
from tests.integration.sight.promql import NotPromQL, parse
from tests.servers import require_program

from dragoman.api.lab.exposition import LAB_NAMESPACE, joined
from dragoman.observability import Metrics

SCRAPE = frozenset({"up"})
"""Metrics that Prometheus itself adds to each scrape."""
SCRAPE_LABELS = frozenset({"instance", "job"})


def families() -> dict[str, Metric]:
    """Every series' name of a server and its lab, with the metric it belongs to."""
    server, lab = Metrics(), Metrics()
    server.describe_process()
    lab.describe_process(LAB_NAMESPACE)
    found = {}
    text = joined(server.exposition(), lab.exposition()).decode()
    for family in text_string_to_metric_families(text):
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
        for ending in endings.get(family.type, [""]):
            found[family.name + ending] = family
    return found


def test_every_query_parses_and_asks_for_metrics_that_exist() -> None:
    known = families().keys() | SCRAPE
    for expression in queries():
        query = parse(expression)
        assert query.metrics, expression
        assert query.metrics <= known, expression


def test_every_query_filters_by_labels_that_exist() -> None:
    declared = {one.name: set(one.labels) for one in Metrics().declared}
    for expression in queries():
        for series, label in parse(expression).labels:
            metric = re.sub("_(bucket|count|sum)$", "", series)
            assert label in SCRAPE_LABELS | declared.get(metric, set()), expression


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
        assert set(rule["annotations"]) == {"summary", "remedy", "runbook_url"}, rule["alert"]


def test_every_alert_links_to_its_entry_in_the_runbook_and_every_entry_has_its_alert() -> None:
    text = RUNBOOK.read_text()
    entries = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    page = RUNBOOK.relative_to(REPOSITORY)

    assert entries == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        assert rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}"


def test_a_runbook_entry_says_what_the_alert_means_where_to_look_and_what_to_do() -> None:
    severity_of = {rule["alert"]: rule["labels"]["severity"] for rule in alerts()}
    for entry in re.split(r"^### ", RUNBOOK.read_text(), flags=re.MULTILINE)[1:]:
        name, _, text = entry.partition("\n")
        assert f"**{severity_of[name].capitalize()}.**" in text, name
        assert "**Look:**" in text, name
        assert "**Do:**" in text, name


def test_promtool_finds_that_every_alert_fires_and_is_silent_when_it_should() -> None:
    promtool = require_program("promtool")
    tests = [path.name for path in ALERT_TESTS]
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", *tests]):
        done = subprocess.run(
            [promtool, *words], cwd=PROMETHEUS, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    cases = [case for test in alert_tests() for case in test["alert_rule_test"]]
    names = sorted(rule["alert"] for rule in alerts())

    assert len(set(names)) == len(names)
    for fires in (True, False):
        assert (
            sorted({one["alertname"] for one in cases if bool(one["exp_alerts"]) is fires}) == names
        )


def test_promtool_notices_an_alert_that_does_not_fire(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(
        (PROMETHEUS / "alerts.yml").read_text().replace("> 0.9", "> 9")
    )
    whole = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())
    of_slots = [one for one in whole["tests"] if one["name"].startswith("DragomanSlotsNearlyFull")]
    (tmp_path / "alerts_test.yml").write_text(yaml.safe_dump({**whole, "tests": of_slots}))
    done = subprocess.run(
        [require_program("promtool"), "test", "rules", "alerts_test.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "DragomanSlotsNearlyFull" in done.stdout + done.stderr


def test_prometheus_is_told_where_the_metrics_and_the_rules_are() -> None:
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())

    assert config["rule_files"] == ["alerts.yml"]
    (scrape,) = config["scrape_configs"]
    assert (scrape["job_name"], scrape["metrics_path"]) == ("dragoman", "/metrics")


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_say_what_they_show_and_do_not_overlap(dashboard: Path) -> None:
    places = set()
    for panel in panels(dashboard):
        assert panel["description"], panel["title"]
        spot = panel["gridPos"]
        assert spot["x"] + spot["w"] <= 24
        for x in range(spot["x"], spot["x"] + spot["w"]):
            for y in range(spot["y"], spot["y"] + spot["h"]):
                assert (x, y) not in places, panel["title"]
                places.add((x, y))


def test_dashboards_have_names_and_panels_ids_of_their_own() -> None:
    boards = [json.loads(path.read_text()) for path in DASHBOARDS]

    assert sorted(board["uid"] for board in boards) == [
        "dragoman-cluster",
        "dragoman-lab",
        "dragoman-live",
    ]
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids), board["uid"]
