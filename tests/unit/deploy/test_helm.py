"""The chart makes objects that Kubernetes takes, with settings and commands of the program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
from tests.unit.deploy.chart import (
    CHART,
    EXAMPLES,
    NAMESPACE,
    OF_THE_OPERATOR,
    Thing,
    helm,
    looked_up,
    named,
    of_kind,
    options,
    pod_of,
    pods,
    refusal,
    rendered,
    variables,
)
from tests.unit.deploy.files import DEPLOY, check_command, settings_of

from dragoman.api.server import GOODBYE_SECONDS
from dragoman.lab.audio import audio_folder_of
from dragoman.lab.model import VersionId
from dragoman.observability import Metrics
from dragoman.settings import Settings

VERSIONS = ("1.27", "1.37")
"""The oldest Kubernetes that Chart.yaml allows, and the newest that there is a schema of."""

ALL_VALUES = [None, *EXAMPLES]
every_values = pytest.mark.parametrize(
    "values", ALL_VALUES, ids=lambda path: path.stem if path else "defaults"
)
WHOLE, GPU, EXTERNAL, BUNDLED = (
    DEPLOY / "helm" / "examples" / f"{name}.yaml"
    for name in ("whole", "gpu", "external", "bundled")
)


def settings_in(things: tuple[Thing, ...], component: str, folder: Path) -> Settings:
    """What the program of a pod runs with: the file that is mounted, and the variables."""
    (container,) = pod_of(things, component)["containers"]
    environ = {
        name: value
        for name, value in variables(things, container).items()
        if name.startswith("DRAGOMAN_")
    }
    assert environ.pop("DRAGOMAN_CONFIG") == "/etc/dragoman/dragoman.toml"
    config = folder / "dragoman.toml"
    config.write_text(named(things, "ConfigMap", "talk-dragoman")["data"]["dragoman.toml"])
    return settings_of(environ, config)


# --- the tools of the field


@every_values
def test_helm_lints_it(values: Path | None) -> None:
    done = helm("lint", "--strict", CHART, *options(values))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@every_values
def test_kubernetes_takes_every_object(values: Path | None, version: str) -> None:
    for thing in rendered(values):
        if thing["kind"] not in OF_THE_OPERATOR:
            kubernetes_validate.validate(thing, version, strict=True)


def test_an_object_that_kubernetes_does_not_take_is_noticed() -> None:
    budget = json.loads(json.dumps(of_kind(rendered(), "PodDisruptionBudget")[0]))
    budget["spec"]["maxUnavailble"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(budget, VERSIONS[-1], strict=True)


def test_the_oldest_kubernetes_is_the_one_that_the_chart_names() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={VERSIONS[0]}.0-0"


def test_the_schema_knows_every_value_and_no_other() -> None:
    def keys(schema: Thing, at: str = "") -> set[str]:
        found = set()
        for name, below in schema.get("properties", {}).items():
            found |= {at + name} | keys(below, f"{at}{name}.")
        return found - {"global"}

    def given(values: Any, at: str = "") -> set[str]:
        found = set()
        for name, below in values.items():
            found.add(at + name)
            if isinstance(below, dict) and f"{at}{name}" not in free:
                found |= given(below, f"{at}{name}.")
        return found

    schema = json.loads((CHART / "values.schema.json").read_text())
    known = keys(schema)
    free = {key for key in known if not any(other.startswith(f"{key}.") for other in known)}
    assert given(yaml.safe_load((CHART / "values.yaml").read_text())) == known


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("instances.replica=3", "replica"),
        ("redis.bundled.password=a b@c", "password"),
        ("redis.bundled.enabled=false", "set redis.existingSecret.name"),
        ("nodes.enabled=true", "set nodes.tokenSecret.name"),
        ("lab.workers.replicas=2", "lab.workers need lab.enabled"),
        ("redis.cluster=true", "the bundled Redis is one server"),
        ("metrics.serviceMonitor.enabled=true", "set metrics.tokenSecret.name"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_reason(setting: str, said: str) -> None:
    assert said in refusal(setting)


def test_nodes_on_every_machine_cannot_follow_the_load() -> None:
    chosen = ("nodes.enabled=true", "nodes.tokenSecret.name=k", "nodes.autoscaling.enabled=true")
    assert "needs nodes.kind Deployment" in refusal(*chosen)


# --- settings and commands are the program's


@every_values
def test_an_instance_is_given_settings_that_exist_and_do_not_contradict(
    values: Path | None, tmp_path: Path
) -> None:
    things = rendered(values)
    settings = settings_in(things, "instance", tmp_path)

    assert settings.auth.mode == "keys"
    assert settings.cluster.enabled
    assert settings.cluster.instance_id == "talk-dragoman-0"
    assert settings.server.port == 8080
    (container,) = pod_of(things, "instance")["containers"]
    check_command(container["args"])


def test_peers_find_an_instance_by_its_address_or_by_the_name_that_its_certificate_has(
    tmp_path: Path,
) -> None:
    plain = settings_in(rendered(), "instance", tmp_path)
    assert plain.cluster.advertise_host == "10.1.2.3"
    secure = settings_in(rendered(WHOLE), "instance", tmp_path)
    peers = named(rendered(WHOLE), "Service", "talk-dragoman-peers")
    assert peers["spec"]["clusterIP"] == "None"
    assert secure.cluster.advertise_host == f"talk-dragoman-0.talk-dragoman-peers.{NAMESPACE}.svc"
    assert secure.server.tls_cert.startswith("/etc/dragoman-tls/")


def test_workers_and_instances_meet_in_one_database_and_one_queue(tmp_path: Path) -> None:
    things = rendered(WHOLE)
    instance = settings_in(things, "instance", tmp_path)
    worker = settings_in(things, "worker", tmp_path)

    assert instance.store == worker.store
    assert instance.lab == worker.lab
    # Redis is a Cluster there, which cannot carry the queue.
    assert worker.lab.queue_url == "database"
    assert not instance.lab.own_worker
    (container,) = pod_of(things, "worker")["containers"]
    check_command(container["args"])
    alone = settings_in(rendered(BUNDLED), "instance", tmp_path)
    assert alone.lab.own_worker
    assert alone.lab.queue_url == alone.cluster.redis_url


@pytest.mark.parametrize("component", ["instance", "worker"])
def test_the_audio_of_datasets_is_on_the_claim_that_all_can_mount(
    component: str, tmp_path: Path
) -> None:
    pod = pod_of(rendered(WHOLE), component)
    (mount,) = (one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "audio")
    (volume,) = (one for one in pod["volumes"] if one["name"] == "audio")

    used = audio_folder_of(tmp_path).incoming(VersionId("v-1")).relative_to(tmp_path)
    assert mount["mountPath"] == f"/var/lib/dragoman/{used.parts[0]}"
    assert volume["persistentVolumeClaim"]["claimName"] == "dragoman-audio"


@pytest.mark.parametrize("values", [BUNDLED, GPU, WHOLE], ids=lambda path: path.stem)
def test_a_node_is_started_by_a_command_that_exists_and_finds_the_instances(values: Path) -> None:
    things = rendered(values)
    (container,) = pod_of(things, "node")["containers"]
    environ = variables(things, container)
    words = [word.replace("$(NODE_ID)", environ["NODE_ID"]) for word in container["args"]]

    check_command(words)
    service = named(things, "Service", "talk-dragoman")
    (port,) = service["spec"]["ports"]
    scheme = "wss" if values == WHOLE else "ws"
    url = f"{scheme}://{service['metadata']['name']}.{NAMESPACE}.svc:{port['port']}"
    assert words[words.index("--url") + 1] == url
    assert environ["DRAGOMAN_TOKEN"] == "a-key"


def test_a_gpu_node_gets_its_processor_and_keeps_its_name_and_models() -> None:
    (nodes,) = of_kind(rendered(GPU), "DaemonSet")
    pod = nodes["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": "16Gi"}
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container["image"] == f"dragoman-gpu:{version}"
    assert variables(rendered(GPU), container)["NODE_ID"] == "gpu-1"
    assert pod["runtimeClassName"] == "nvidia"
    assert pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert pod["volumes"][0]["hostPath"]["path"] == "/var/lib/dragoman-models"


# --- rolling updates


@every_values
def test_an_instance_has_time_to_drain_and_is_left_out_before_it_refuses(
    values: Path | None, tmp_path: Path
) -> None:
    things = rendered(values)
    server = settings_in(things, "instance", tmp_path).server
    pod = pod_of(things, "instance")
    drain_seconds = server.drain_delay_seconds + server.drain_seconds

    assert pod["terminationGracePeriodSeconds"] > drain_seconds + 2 * GOODBYE_SECONDS
    probe = pod["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == "/readyz"
    noticed_seconds = probe["periodSeconds"] * probe["failureThreshold"]
    assert noticed_seconds < server.drain_delay_seconds


def test_instances_are_replaced_one_after_the_other_and_one_may_be_away() -> None:
    things = rendered()
    (instances,) = (one for one in of_kind(things, "StatefulSet") if is_part(one, "instance"))
    (budget,) = of_kind(things, "PodDisruptionBudget")

    assert instances["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert instances["spec"]["replicas"] == 3
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == instances["spec"]["selector"]


def test_new_settings_restart_the_instances() -> None:
    def mark(*settings: str) -> str:
        (pod,) = (pod for part, pod in pods(rendered(None, *settings)) if part == "instance")
        found: str = pod["metadata"]["annotations"]["checksum/settings"]
        return found

    assert mark() != mark("instances.settings=[limits]\nmax_sessions = 5")


def test_nodes_and_workers_have_time_to_end_what_they_began() -> None:
    things, defaults = rendered(WHOLE), Settings()
    node, worker = pod_of(things, "node"), pod_of(things, "worker")

    run_seconds = defaults.scheduler.job_timeout.run_seconds
    assert node["terminationGracePeriodSeconds"] > run_seconds
    assert worker["terminationGracePeriodSeconds"] > defaults.lab.item_timeout_seconds


# --- scaling


def test_instances_follow_sessions_and_nodes_follow_busy_slots() -> None:
    scalers = {
        one["spec"]["scaleTargetRef"]["name"]: one
        for one in of_kind(rendered(WHOLE), "HorizontalPodAutoscaler")
    }
    assert set(scalers) == {"talk-dragoman", "talk-dragoman-nodes"}
    adapter = yaml.safe_load((DEPLOY / "helm" / "prometheus-adapter.yaml").read_text())
    offered = {rule["name"]["as"] for rule in adapter["rules"]["custom"]}
    assert asked_for(scalers["talk-dragoman"]) == {"scheduler_sessions"}
    assert asked_for(scalers["talk-dragoman-nodes"]) == {"dragoman_slots_used_percent"}
    assert offered == {"scheduler_sessions", "dragoman_slots_used_percent"}
    declared = {one.name for one in Metrics().declared}
    for rule in adapter["rules"]["custom"]:
        assert set(re.findall(r"\b(scheduler_\w+)\{", rule["metricsQuery"])) <= declared


def asked_for(scaler: Thing) -> set[str]:
    return {
        metric[metric["type"].lower()]["metric"]["name"] for metric in scaler["spec"]["metrics"]
    }


def test_what_an_autoscaler_scales_exists_and_has_no_number_of_its_own() -> None:
    for scaler in of_kind(rendered(WHOLE), "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        scaled = named(rendered(WHOLE), target["kind"], target["name"])
        assert "replicas" not in scaled["spec"]


def test_large_numbers_are_written_out() -> None:
    things = rendered(None, "autoscaling.enabled=true", "autoscaling.sessionsPerInstance=2000000")
    (scaler,) = of_kind(things, "HorizontalPodAutoscaler")
    (metric,) = scaler["spec"]["metrics"]
    assert metric["pods"]["target"]["averageValue"] == "2000000"


# --- rights and networks


@every_values
def test_no_pod_has_rights_that_it_does_not_need(values: Path | None) -> None:
    for component, template in pods(rendered(values)):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True, component
        assert pod["automountServiceAccountToken"] is False, component
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] is True, component
            assert rights["allowPrivilegeEscalation"] is False, component
            assert rights["capabilities"] == {"drop": ["ALL"]}, component


@every_values
def test_what_is_mounted_is_a_volume_and_a_pod_is_found_by_its_selector(
    values: Path | None,
) -> None:
    for thing in of_kind(rendered(values), "StatefulSet", "Deployment", "DaemonSet"):
        template = thing["spec"]["template"]
        labels = template["metadata"]["labels"]
        assert thing["spec"]["selector"]["matchLabels"].items() <= labels.items()
        claims = [one["metadata"]["name"] for one in thing["spec"].get("volumeClaimTemplates", [])]
        volumes = {*claims, *(one["name"] for one in template["spec"].get("volumes", []))}
        for container in template["spec"]["containers"]:
            assert {one["name"] for one in container["volumeMounts"]} <= volumes


@every_values
def test_every_pod_has_a_network_policy_and_only_instances_take_callers(
    values: Path | None,
) -> None:
    things = rendered(values)
    policies = {
        one["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: one["spec"]
        for one in of_kind(things, "NetworkPolicy")
    }
    parts = {component for component, _ in pods(things)}
    assert set(policies) == parts
    if "node" in parts:
        assert policies["node"]["ingress"] == []
    if "worker" in parts:
        (worker_rule,) = policies["worker"]["ingress"]
        assert worker_rule["ports"] == [{"protocol": "TCP", "port": "metrics"}]
    for part in parts & {"redis", "postgres"}:
        (rule,) = policies[part]["ingress"]
        callers = [peer["podSelector"]["matchLabels"] for peer in rule["from"]]
        assert {one["app.kubernetes.io/component"] for one in callers} == {"instance", "worker"}
    (instance_rule,) = policies["instance"]["ingress"]
    assert instance_rule["ports"] == [{"protocol": "TCP", "port": "http"}]


def test_callers_are_those_that_are_named_and_the_release_itself() -> None:
    policy = named(rendered(EXTERNAL), "NetworkPolicy", "talk-dragoman")
    (rule,) = policy["spec"]["ingress"]
    spaces = [one for one in rule["from"] if "namespaceSelector" in one]
    own = [one for one in rule["from"] if "podSelector" in one]
    assert len(spaces) == 2
    assert len(own) == 3


def test_networks_are_left_alone_when_that_is_asked_for() -> None:
    assert of_kind(rendered(None, "networkPolicy.enabled=false"), "NetworkPolicy") == []


# --- Redis and databases


def test_passwords_of_what_is_bundled_are_drawn_and_used_on_both_sides() -> None:
    things = rendered()
    (secret,) = of_kind(things, "Secret")
    kept = secret["stringData"]

    assert re.fullmatch(r"[A-Za-z0-9]{32}", kept["redis-password"])
    assert kept["redis-password"] != kept["database-password"]
    assert f":{kept['redis-password']}@talk-dragoman-redis:6379" in kept["redis-url"]
    assert f":{kept['database-password']}@talk-dragoman-postgres/" in kept["database-url"]
    for component, variable, key in (
        ("redis", "REDISCLI_AUTH", "redis-password"),
        ("postgres", "POSTGRES_PASSWORD", "database-password"),
    ):
        (container,) = pod_of(things, component)["containers"]
        (given,) = (one for one in container["env"] if one["name"] == variable)
        assert looked_up(things, given["valueFrom"]) == kept[key]


def test_servers_of_ones_own_are_used_instead_and_nothing_is_bundled() -> None:
    things = rendered(EXTERNAL)
    assert of_kind(things, "Secret") == []
    assert {component for component, _ in pods(things)} == {"instance"}


def test_redis_forgets_no_lease() -> None:
    (container,) = pod_of(rendered(), "redis")["containers"]
    assert "--appendonly yes" in container["command"][-1]
    assert "--maxmemory-policy noeviction" in container["command"][-1]


# --- what watches it


def test_prometheus_scrapes_each_instance_once_with_a_key_under_the_name_that_alerts_ask_for() -> (
    None
):
    things = rendered(EXTERNAL)
    (monitor,) = of_kind(things, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [
        one for one in of_kind(things, "Service") if wanted <= one["metadata"]["labels"].items()
    ]
    (endpoint,) = monitor["spec"]["endpoints"]

    assert [one["metadata"]["name"] for one in services] == ["talk-dragoman"]
    assert endpoint["port"] in [port["name"] for port in services[0]["spec"]["ports"]]
    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"]["credentials"] == {
        "name": "dragoman-viewer-key",
        "key": "token",
    }
    assert endpoint["relabelings"] == [
        {"action": "replace", "targetLabel": "job", "replacement": "dragoman"}
    ]


def test_prometheus_reads_what_workers_did_where_they_tell_it() -> None:
    things = rendered(WHOLE)
    (monitor,) = of_kind(things, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = pod_of(things, "worker")["containers"]
    (port,) = container["ports"]
    words = container["args"]

    assert endpoint["port"] == port["name"] == container["livenessProbe"]["httpGet"]["port"]
    assert words[words.index("--metrics-port") + 1] == str(port["containerPort"])
    (pod,) = (pod for part, pod in pods(things) if part == "worker")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert wanted <= pod["metadata"]["labels"].items()


def test_the_alerts_and_dashboards_are_those_of_the_repository() -> None:
    things = rendered(EXTERNAL)
    (rule,) = of_kind(things, "PrometheusRule")
    alerts = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    assert rule["spec"] == alerts
    for path in (DEPLOY / "grafana").glob("*.json"):
        kept = named(things, "ConfigMap", f"talk-dragoman-{path.stem}")
        assert json.loads(kept["data"][path.name]) == json.loads(path.read_text())
        assert kept["metadata"]["labels"]["grafana_dashboard"] == "1"


def is_part(thing: Thing, component: str) -> bool:
    labels = thing["spec"]["template"]["metadata"]["labels"]
    return bool(labels["app.kubernetes.io/component"] == component)
