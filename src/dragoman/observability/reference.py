"""The reference page of all metrics, made from their declarations.

``python -m dragoman.observability.reference`` prints it; it is kept as docs/reference/metrics.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dragoman.observability.declare import SERIES_MAX, Declared
from dragoman.observability.metrics import Metrics

_INTRODUCTION = f"""\
# Metrics

<!-- Written by `python -m dragoman.observability.reference`; do not edit by hand. -->

`GET /metrics` of a server answers with these, in the Prometheus text format. A histogram has
series that end in `_bucket`, `_sum` and `_count`. A metric has at most {SERIES_MAX} series by its
labels; further ones are counted under `other`. A metric with labels has no series before its thing
has happened. [Which to watch first](../howto/logs-and-metrics.md#metrics), and
[which alerts they feed](../howto/runbook.md).
"""

_PROCESSES = """\
## Processes

`process_*` is about the server's process, `lab_process_*` about the lab's. Where the system has no
`/proc`, both are missing.
"""

_OF_A_PROCESS = (
    Declared("process_cpu_seconds_total", "counter", "Processor time used, in seconds."),
    Declared("process_max_fds", "gauge", "Files and sockets that may be open."),
    Declared("process_open_fds", "gauge", "Files and sockets that are open."),
    Declared("process_resident_memory_bytes", "gauge", "Memory that is held."),
    Declared("process_start_time_seconds", "gauge", "When it began, in seconds since 1970."),
    Declared("process_virtual_memory_bytes", "gauge", "Memory that is mapped."),
)
_BUILDS = tuple(
    Declared(name, "gauge", "1, with the versions of Dragoman and Python.", ("version", "python"))
    for name in ("dragoman_build_info", "lab_build_info")
)


def reference() -> str:
    """The whole page, as Markdown."""
    declared = Metrics().declared
    parts = [
        _INTRODUCTION,
        "## Live plane\n",
        _table(one for one in declared if one.name.startswith("scheduler_")),
        "## Lab plane\n",
        _table(one for one in declared if one.name.startswith("lab_")),
        _PROCESSES,
        _table([*_OF_A_PROCESS, *_of_the_lab(), *_BUILDS]),
    ]
    return "\n".join(parts)


def _of_the_lab() -> Iterator[Declared]:
    return (replace(one, name=f"lab_{one.name}") for one in _OF_A_PROCESS)


def _table(metrics: Iterable[Declared]) -> str:
    return "\n".join(_rows(metrics)) + "\n"


def _rows(metrics: Iterable[Declared]) -> Iterator[str]:
    yield "| metric | kind | meaning |"
    yield "| --- | --- | --- |"
    for one in sorted(metrics, key=lambda one: one.name):
        labels = f"{{{','.join(one.labels)}}}" if one.labels else ""
        yield f"| `{one.name}{labels}` | {one.kind} | {one.meaning} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
