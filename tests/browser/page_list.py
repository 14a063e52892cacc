"""Every page of the console, by the name of its picture."""

from __future__ import annotations

from typing import NamedTuple


class ListedPage(NamedTuple):
    """A page; what stands in braces is known once there is a fleet and a lab."""

    path: str
    title: str


PAGES = {
    "overview": ListedPage("/", "Overview"),
    "pairs": ListedPage("/pairs", "Language pairs"),
    "nodes": ListedPage("/nodes", "Nodes"),
    "nodes-as-cells": ListedPage("/nodes?view=cells", "Nodes"),
    "node": ListedPage("/nodes/{node}", "Node {node}"),
    "sessions": ListedPage("/sessions", "Sessions"),
    "session": ListedPage("/sessions/{session}", "Session {session}"),
    "jobs": ListedPage("/jobs", "Jobs"),
    "job": ListedPage("/jobs/{job}", "Job {job}"),
    "talk": ListedPage("/talk", "Talk"),
    "talk-of-two": ListedPage("/talk?people=2", "Talk"),
    "lab": ListedPage("/lab", "Lab"),
    "experiment": ListedPage("/lab/experiments/{experiment}?group=domain", "{name}"),
    "running-experiment": ListedPage("/lab/experiments/{running}", "running"),
    "rows": ListedPage(
        "/lab/experiments/{experiment}/rows?filter=score.exact%20%3C%201", "Rows of {name}"
    ),
    "row": ListedPage("/lab/experiments/{experiment}/rows/{item}", "Row {item}"),
    "compare": ListedPage("/lab/compare?baseline={experiment}&others={other}", "Compare"),
    "datasets": ListedPage("/lab/datasets", "Datasets"),
    "dataset": ListedPage("/lab/datasets/{dataset}", "sentences"),
    "new-experiment": ListedPage("/lab/new", "New experiment"),
    "cluster": ListedPage("/cluster", "Cluster"),
    "audit": ListedPage("/audit", "Audit log"),
    "alerts": ListedPage("/alerts", "Alerts"),
    "settings": ListedPage("/settings", "Settings"),
    "api": ListedPage("/docs", "API"),
    "sign-in": ListedPage("/sign-in", "Sign in"),
}

WIDTHS = (360, 1280, 2560)
"""A phone, a laptop, a wide screen; in pixels."""
