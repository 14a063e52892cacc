"""The reference page of the metrics is the one that the declarations make."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from dragoman.api.lab.exposition import LAB_NAMESPACE, joined
from dragoman.observability import Metrics
from dragoman.observability.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_the_page_is_up_to_date() -> None:
    remedy = "run `python -m dragoman.observability.reference > docs/reference/metrics.md`"
    assert PAGE.read_text() == reference(), remedy


def test_the_page_has_every_metric_of_a_server_and_no_other() -> None:
    server, lab = Metrics(), Metrics()
    server.describe_process()
    lab.describe_process(LAB_NAMESPACE)
    text = joined(server.exposition(), lab.exposition()).decode()
    exposed = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in text_string_to_metric_families(text)
    }
    rows = re.findall(r"^\| (`.*?) \| (?:counter|gauge|histogram) \|", PAGE.read_text(), re.M)
    shown = {name for row in rows for name in re.findall(r"`(\w+)[`{]", row)}
    assert shown == exposed
