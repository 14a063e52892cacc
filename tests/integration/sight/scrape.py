"""What a server tells about itself, as Prometheus would read it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from tests.integration.serve.server_process import ServerProcess


class Scrape:
    """One reading of ``/metrics``."""

    def __init__(self, text: str) -> None:
        self.names: set[str] = set()
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            self.names.add(family.name + ("_total" if family.type == "counter" else ""))
            for sample in family.samples:
                self._values[sample.name, frozenset(sample.labels.items())] = sample.value

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels; a histogram's count."""
        wanted = labels.items()
        return sum(
            value
            for (series, found), value in self._values.items()
            if series in (name, f"{name}_count") and wanted <= found
        )

    def series(self, name: str) -> int:
        return sum(series == name for series, _ in self._values)


def scrape(server: ServerProcess) -> Scrape:
    return Scrape(server.get("/metrics").text)
