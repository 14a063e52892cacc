"""The Helm chart as Kubernetes would get it: rendered by Helm itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from tests.servers import require_program
from tests.unit.deploy.files import DEPLOY

CHART = DEPLOY / "helm" / "dragoman"
EXAMPLES = sorted((DEPLOY / "helm" / "examples").glob("*.yaml"))
NAMESPACE = "speech"
OF_THE_OPERATOR = ("ServiceMonitor", "PodMonitor", "PrometheusRule")
"""Kinds of Prometheus' operator, of which Kubernetes itself has no schema."""

Thing = dict[str, Any]


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).with_name("helm")
    program = str(beside) if beside.exists() else require_program("helm")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def options(values: Path | None, settings: tuple[str, ...] = ()) -> list[str | Path]:
    chosen: list[str | Path] = [] if values is None else ["--values", values]
    return [*chosen, *(word for setting in settings for word in ("--set", setting))]


@cache
def rendered(values: Path | None = None, *settings: str) -> tuple[Thing, ...]:
    """Every object that the chart makes with these values."""
    done = helm("template", "talk", CHART, "--namespace", NAMESPACE, *options(values, settings))
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one is not None)


def refusal(*settings: str) -> str:
    """What Helm says of values that the chart does not take."""
    done = helm("template", "talk", CHART, *options(None, settings))
    assert done.returncode != 0
    return done.stderr


def of_kind(things: tuple[Thing, ...], *kinds: str) -> list[Thing]:
    return [thing for thing in things if thing["kind"] in kinds]


def named(things: tuple[Thing, ...], kind: str, name: str) -> Thing:
    (found,) = (one for one in of_kind(things, kind) if one["metadata"]["name"] == name)
    return found


def pods(things: tuple[Thing, ...]) -> Iterator[tuple[str, Thing]]:
    """The component and the pod template of everything that makes pods."""
    for thing in of_kind(things, "StatefulSet", "Deployment", "DaemonSet"):
        template = thing["spec"]["template"]
        yield template["metadata"]["labels"]["app.kubernetes.io/component"], template


def pod_of(things: tuple[Thing, ...], component: str) -> Thing:
    (found,) = (pod for part, pod in pods(things) if part == component)
    spec: Thing = found["spec"]
    return spec


def variables(things: tuple[Thing, ...], container: Thing) -> dict[str, str]:
    """The container's environment, with the fields and secrets that a cluster would put in."""
    found: dict[str, str] = {}
    for variable in container["env"]:
        value = variable.get("value")
        if value is None:
            value = looked_up(things, variable["valueFrom"])
        for name, known in found.items():
            value = value.replace(f"$({name})", known)
        found[variable["name"]] = value
    return found


FIELDS = {"metadata.name": "talk-dragoman-0", "status.podIP": "10.1.2.3", "spec.nodeName": "gpu-1"}
SECRETS = {
    "redis-url": "redis://:secret@redis.example:6379",
    "database-url": "postgresql://dragoman:secret@database.example/dragoman",
    "token": "a-key",
    "openai": "another-key",
}


def looked_up(things: tuple[Thing, ...], source: Mapping[str, Any]) -> str:
    if "fieldRef" in source:
        return FIELDS[source["fieldRef"]["fieldPath"]]
    wanted = source["secretKeyRef"]
    for secret in of_kind(things, "Secret"):
        if secret["metadata"]["name"] == wanted["name"]:
            text: str = secret["stringData"][wanted["key"]]
            return text
    kind = "database-url" if "database" in wanted["name"] else "redis-url"
    return SECRETS.get(wanted["key"], SECRETS[kind])
