"""A viewer's key in the lab: every question is answered, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import httpx
from tests.integration.serve.server_process import ServerProcess, environment, run


def test_a_viewer_asks_the_lab_and_changes_nothing(tmp_path: Path) -> None:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path / "data", env=env, lab=True) as server:
        options = ("--role", "viewer", "--data-dir", server.data_dir)
        code, output, errors = run("keys", "create", *options)
        assert code == 0, errors
        headers = {"Authorization": f"Bearer {output.split()[-1]}"}
        url = server.url + "/api/v1/"
        with httpx.Client(base_url=url, headers=headers, timeout=60) as viewer:
            for path in ("experiments", "datasets", "targets", "evaluators", "lab/workers"):
                assert viewer.get(path).status_code == 200, path
            # Questions that are asked with POST: there is no such experiment, which is an answer.
            assert viewer.post("experiments/none/results", json={}).status_code == 404
            compared = viewer.post("experiments/compare", json={"baseline": "a", "others": ["b"]})
            assert compared.status_code == 404
            changes = [
                ("POST", "experiments"),
                ("POST", "experiments/submit"),
                ("POST", "experiments/none/runs"),
                ("POST", "experiments/none/kill"),
                ("POST", "experiments/none/annotations"),
                ("PATCH", "experiments/none"),
                ("DELETE", "experiments/none"),
                ("DELETE", "datasets/none"),
                ("POST", "evaluators/try"),
                ("POST", "lab/mirror/rebuild"),
            ]
            for method, path in changes:
                answer = viewer.request(method, path, json={} if method != "DELETE" else None)
                assert answer.status_code == 403, (method, path, answer.text)
