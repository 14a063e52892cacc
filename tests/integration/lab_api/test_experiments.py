"""Experiments over HTTP: what is refused before anything is stored, runs, kills, changes."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.integration.lab_api.conftest import Asker, OpenLab, order_of

ROWS = [{"said": word, "meant": word} for word in ("a", "b", "xc", "d")]
HERE = "tests.integration.lab_api.targets"


def python_target(name: str) -> dict[str, str]:
    return {"kind": "python", "function": f"{HERE}:{name}"}


def test_an_experiment_is_made_started_and_shown(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            order = order_of(await lab.import_rows(ROWS), description="a first try")
            made = await lab.post("/experiments", order)
            assert made.status_code == 201
            experiment_id = made.json()["experiment_id"]
            fresh = (await lab.get(f"/experiments/{experiment_id}")).json()
            assert (fresh["status"], fresh["run_id"]) == ("pending", None)
            assert fresh["evaluators"][0]["name"] == "exact"
            started = await lab.post(f"/experiments/{experiment_id}/runs", {"mode": "submit"})
            assert started.status_code == 201
            ended = await lab.until_ended(experiment_id)
            assert (ended["status"], ended["progress"]) == ("success", 1.0)
            assert ended["stats"]["success"] == 4
            assert ended["ended_at"] >= ended["started_at"] >= ended["created_at"]
            runs = (await lab.get(f"/experiments/{experiment_id}/runs")).json()["items"]
            assert [run["run_id"] for run in runs] == [started.json()["run_id"]]
            listed = (await lab.get("/experiments")).json()["items"]
            assert [one["name"] for one in listed] == ["trial run"]

    asyncio.run(scenario())


CANNOT_WORK: list[tuple[dict[str, Any], str | None, str]] = [
    ({"name": ""}, "INVALID_MESSAGE", "name"),
    ({"target": {"output": "said"}}, "INVALID_MESSAGE", "target.kind"),
    ({"target": {"kind": "magic"}}, "INVALID_MESSAGE", "recorded"),
    ({"target": {"kind": "recorded", "output": "sung"}}, "SCHEMA_MISMATCH", "sung"),
    ({"evaluators": [{"reference": "meant"}]}, "INVALID_MESSAGE", "evaluators[0].kind"),
    ({"evaluators": [{"kind": "exact", "reference": "no"}]}, "SCHEMA_MISMATCH", "no"),
    (
        {
            "evaluators": [
                {"kind": "exact", "name": f"e{n}", "reference": "meant"} for n in range(101)
            ]
        },
        "INVALID_MESSAGE",
        "101 evaluators",
    ),
    ({"mapping": {f"m{n}": "said" for n in range(1001)}}, "INVALID_MESSAGE", "1,001 entries"),
    ({"mapping": {"x": "nowhere"}}, "SCHEMA_MISMATCH", "nowhere"),
    ({"concurrency": 0}, "INVALID_MESSAGE", "concurrency"),
    ({"concurrency": "many"}, "INVALID_MESSAGE", "concurrency"),
    ({"colour": "red"}, "INVALID_MESSAGE", "colour"),
    ({"budget": {"token": 100}}, "INVALID_MESSAGE", "token"),
    ({"budget": {"tokens": -100}}, "INVALID_MESSAGE", "budget.tokens is -100"),
    (
        {
            "budget": {"cost": 1},
            "target": {"kind": "openai", "url": "https://example.org", "model": "m", "prompt": "x"},
        },
        "INVALID_MESSAGE",
        "the model 'm' has no price",
    ),
    ({"cron": "* * 32 * *"}, "INVALID_MESSAGE", "bad day-of-month"),
    (
        {"cron": "* * * * *", "cron_timezone": "Mars"},
        "INVALID_MESSAGE",
        "'Mars' is not a time zone",
    ),
    ({"cron_timezone": "Europe/Vienna"}, "INVALID_MESSAGE", "has no cron"),
    ({"weight": 0}, "INVALID_MESSAGE", "weight is 0"),
    ({"evaluators": [{"kind": "exact", "reference": "meant", "weight": 2}]}, None, "composite"),
    ({"target": {"kind": "python", "function": "os:remove"}}, None, "python_allow"),
    ({"dataset_version_id": "v-nothing"}, "NOT_FOUND", "v-nothing"),
]


def test_an_experiment_that_cannot_work_is_refused_and_nothing_is_stored(
    open_lab: OpenLab,
) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version_id = await lab.import_rows(ROWS)
            for change, code, word in CANNOT_WORK:
                order = order_of(version_id) | change
                for path in ("/experiments", "/experiments/submit"):
                    refused = await lab.post(path, order)
                    assert 400 <= refused.status_code < 500, refused.text
                    problem = refused.json()["error"]
                    assert code in (None, problem["code"]), change
                    assert word in problem["message"], change
            assert (await lab.get("/experiments")).json()["items"] == []

    asyncio.run(scenario())


def test_a_name_is_taken_once_and_clones_get_one_of_their_own(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            order = order_of(await lab.import_rows(ROWS))
            experiment_id = (await lab.post("/experiments", order)).json()["experiment_id"]
            again = await lab.post("/experiments", order)
            assert (again.status_code, again.json()["error"]["code"]) == (409, "NAME_TAKEN")
            for expected in ("trial run #2", "trial run #3"):
                cloned = await lab.post(f"/experiments/{experiment_id}/clone")
                assert cloned.status_code == 201
                shown = await lab.get(f"/experiments/{cloned.json()['experiment_id']}")
                assert shown.json()["name"] == expected

    asyncio.run(scenario())


def test_what_belongs_to_another_tenant_is_not_there(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version_id = await lab.import_rows(ROWS)
            experiment_id = await lab.submit(version_id)
            await lab.until_ended(experiment_id)
            other = lab.as_tenant("other")
            path = f"/experiments/{experiment_id}"
            for method, asked in (
                *(("GET", path), ("GET", f"{path}/runs"), ("GET", f"{path}/aggregates")),
                *(("GET", f"{path}/results/count"), ("GET", f"{path}/export")),
                *(("POST", f"{path}/results"), ("POST", f"{path}/kill"), ("DELETE", path)),
                *(("POST", f"{path}/runs"), ("POST", f"{path}/clone"), ("PATCH", path)),
            ):
                answer = await other.ask(method, asked, json={})
                assert answer.status_code == 404, (method, asked)
            assert (await other.post("/experiments", order_of(version_id))).status_code == 404
            assert (await other.get("/experiments")).json()["items"] == []

    asyncio.run(scenario())


def test_a_running_experiment_is_not_started_twice_and_is_killed_soon(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version_id = await lab.import_rows(ROWS)
            experiment_id = await lab.submit(version_id, target=python_target("endless"))
            path = f"/experiments/{experiment_id}"
            second = await lab.post(f"{path}/runs", {"mode": "retry_all"})
            assert second.status_code == 409
            assert second.json()["error"]["code"] == "EXPERIMENT_RUNNING"
            assert (await lab.ask("DELETE", path)).status_code == 409
            await lab.until(experiment_id, lambda it: it["stats"]["processing"] == len(ROWS))
            assert (await lab.post(f"{path}/kill")).status_code == 202
            ended = await lab.until_ended(experiment_id)
            assert (ended["status"], ended["stats"]["terminated"]) == ("terminated", 4)
            assert ended["reason"]
            again = await lab.post(f"{path}/kill")
            assert again.json()["error"]["code"] == "EXPERIMENT_NOT_RUNNING"
            assert (await lab.ask("DELETE", path)).status_code == 204
            assert (await lab.get(path)).status_code == 404

    asyncio.run(scenario())


def test_what_failed_is_tried_again(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version_id = await lab.import_rows(ROWS)
            experiment_id = await lab.submit(version_id, target=python_target("picky"), retries=0)
            path = f"/experiments/{experiment_id}"
            ended = await lab.until_ended(experiment_id)
            assert (ended["status"], ended["stats"]["fail"]) == ("success", 1)
            failed = await _rows(
                lab, experiment_id, {"field": "status", "op": "=", "value": "fail"}
            )
            assert [row["error_code"] for row in failed] == ["TARGET_ERROR"]
            assert "no x" in failed[0]["error_message"]
            retried = await lab.post(f"{path}/runs", {"mode": "fail_retry"})
            await lab.until_ended(experiment_id)
            runs = (await lab.get(f"{path}/runs")).json()["items"]
            assert runs[0]["run_id"] == retried.json()["run_id"]
            assert runs[0]["stats"]["fail"] == 1
            named = {"mode": "retry_items", "item_ids": [failed[0]["item_id"]]}
            assert (await lab.post(f"{path}/runs", named)).status_code == 201
            await lab.until_ended(experiment_id)
            for mode in ("retry_items", "sing"):
                assert (await lab.post(f"{path}/runs", {"mode": mode})).status_code == 422

    asyncio.run(scenario())


async def _rows(lab: Asker, experiment_id: str, wanted: object) -> list[dict[str, Any]]:
    page = await lab.post(f"/experiments/{experiment_id}/results", {"filter": wanted})
    rows: list[dict[str, Any]] = page.json()["items"]
    return rows


def test_what_may_be_changed_is_changed_and_the_rest_is_refused(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            order = order_of(await lab.import_rows(ROWS), concurrency=4)
            experiment_id = (await lab.post("/experiments", order)).json()["experiment_id"]
            path = f"/experiments/{experiment_id}"
            changed = await lab.ask("PATCH", path, json={"name": "renamed", "concurrency": 2})
            assert changed.status_code == 200
            assert (changed.json()["name"], changed.json()["concurrency"]) == ("renamed", 2)
            assert changed.json()["retries"] == 2
            refused: tuple[dict[str, Any], ...] = ({"target": {}}, {"concurrency": 0}, {"name": 3})
            for wrong in refused:
                assert (await lab.ask("PATCH", path, json=wrong)).status_code == 422

    asyncio.run(scenario())


def test_the_kinds_tell_their_settings_and_an_evaluator_can_be_tried(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            targets = (await lab.get("/targets")).json()["items"]
            assert {"python", "http", "recorded"} <= {kind["kind"] for kind in targets}
            evaluators = (await lab.get("/evaluators")).json()["items"]
            assert {"exact", "contains", "python"} <= {kind["kind"] for kind in evaluators}
            assert all(
                "$defs" in kind["schema"] or "properties" in kind["schema"] for kind in targets
            )
            trial = {"evaluator": {"kind": "exact", "reference": "meant"}, "turn": {"meant": "a"}}
            columns = {"other": "b", "output": "a"}
            for output, score in (("a", 1.0), ("b", 0.0), (columns, 1.0), ({"only": "a"}, 1.0)):
                tried = await lab.post("/evaluators/try", {**trial, "output": output})
                assert (tried.status_code, tried.json()["score"]) == (200, score)
            wrong = await lab.post("/evaluators/try", {**trial, "turn": {}})
            assert wrong.status_code == 422

    asyncio.run(scenario())


def test_what_is_stopped_is_not_done_and_going_on_does_not_begin_at_the_end(
    open_lab: OpenLab,
) -> None:
    rows = [{"said": word, "meant": word} for word in ("a", "b", "c", "d")]

    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(
                await lab.import_rows(rows),
                target={"kind": "python", "function": f"{HERE}:endless_but_a"},
                concurrency=2,
            )
            path = f"/experiments/{experiment_id}"
            found = await lab.until(experiment_id, lambda one: one["stats"]["success"] == 1)
            assert found["items"] == 4
            assert (await lab.post(f"{path}/kill")).status_code == 202
            ended = await lab.until_ended(experiment_id)
            assert (ended["status"], ended["progress"]) == ("terminated", 0.25)
            assert ended["eta_seconds"] is None
            for _ in range(5):
                started = await lab.post(f"{path}/runs", {"mode": "fail_retry"})
                assert started.status_code == 201
                again = (await lab.get(path)).json()
                assert (again["progress"], again["items"]) == (0.0, 4)
                await lab.post(f"{path}/kill")
                await lab.until_ended(experiment_id)

    asyncio.run(scenario())


def test_a_kill_that_lets_calls_finish_can_be_followed_by_one_that_does_not(
    open_lab: OpenLab,
) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(
                await lab.import_rows([{"said": "b", "meant": "b"}]),
                target={"kind": "python", "function": f"{HERE}:endless"},
            )
            path = f"/experiments/{experiment_id}"
            await lab.until(experiment_id, lambda one: one["stats"]["processing"] == 1)
            odd = await lab.post(f"{path}/kill", {"in_flight": "wait"})
            assert odd.status_code == 422
            assert (await lab.post(f"{path}/kill", {"in_flight": "finish"})).status_code == 202
            found = (await lab.get(path)).json()
            assert (found["status"], found["stats"]["processing"]) == ("terminating", 1)
            assert (await lab.post(f"{path}/kill", {"in_flight": "finish"})).status_code == 202
            assert (await lab.post(f"{path}/kill")).status_code == 202
            assert (await lab.until_ended(experiment_id))["status"] == "terminated"

    asyncio.run(scenario())


def test_repetitions_are_rows_of_their_own_and_told_of_in_the_aggregates(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version_id = await lab.import_rows(ROWS)
            experiment_id = await lab.submit(version_id, repetitions=3)
            ended = await lab.until_ended(experiment_id)
            assert (ended["repetitions"], ended["items"]) == (3, 3 * len(ROWS))
            assert (ended["stats"]["success"], ended["progress"]) == (3 * len(ROWS), 1.0)
            path = f"/experiments/{experiment_id}"
            page = (await lab.post(f"{path}/results", {"columns": ["repetition"]})).json()
            assert [row["repetition"] for row in page["items"]] == [1, 2, 3] * len(ROWS)
            second = await _rows(lab, experiment_id, {"field": "repetition", "op": "=", "value": 2})
            assert len(second) == len(ROWS)
            walked, cursor = [], None
            while True:
                order = {"limit": 5, "cursor": cursor}
                page = (await lab.post(f"{path}/results", order)).json()
                walked += [(row["item_id"], row["repetition"]) for row in page["items"]]
                if (cursor := page["next"]) is None:
                    break
            assert len(set(walked)) == len(walked) == 3 * len(ROWS)
            found = (await lab.get(f"{path}/aggregates")).json()["scores"]["exact"]["repetitions"]
            assert (found["count"], found["within"]) == (3, 0.0)
            assert set(found["pass_at_k"]) == set(found["pass_hat_k"]) == {"1", "2", "3"}
            for wrong in (0, -1, 1001, "x"):
                refused = await lab.post(
                    "/experiments", order_of(version_id, name="other", repetitions=wrong)
                )
                assert refused.status_code == 422, wrong

    asyncio.run(scenario())


def test_an_experiment_without_repetitions_says_nothing_of_them(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(await lab.import_rows(ROWS))
            await lab.until_ended(experiment_id)
            found = (await lab.get(f"/experiments/{experiment_id}/aggregates")).json()
            assert "repetitions" not in found["scores"]["exact"]

    asyncio.run(scenario())


def test_stored_outputs_are_scored_again_over_http(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version_id = await lab.import_rows(ROWS)
            experiment_id = await lab.submit(version_id)
            await lab.until_ended(experiment_id)
            path = f"/experiments/{experiment_id}"
            new = {"kind": "contains", "reference": "meant", "name": "has it"}
            started = await lab.post(f"{path}/score", {"evaluators": [new]})
            assert started.status_code == 201, started.text
            ended = await lab.until_ended(experiment_id)
            assert ended["run_id"] == started.json()["run_id"]
            assert [one["name"] for one in ended["evaluators"]] == ["exact", "has it"]
            runs = (await lab.get(f"{path}/runs")).json()["items"]
            assert [run["mode"] for run in runs] == ["score", "submit"]
            rows = await _rows(lab, experiment_id, None)
            assert all(set(row["scores"]) == {"exact", "has it"} for row in rows)
            earlier = runs[1]["run_id"]
            page = (await lab.post(f"{path}/results", {"run_id": earlier})).json()
            assert all(set(row["scores"]) == {"exact"} for row in page["items"])
            refusals: list[dict[str, Any]] = [
                {},
                {"evaluators": []},
                {"evaluators": [{"kind": "sing"}]},
                {"evaluators": [new, new]},
                {"evaluators": [new], "mode": "score"},
            ]
            for wrong in refusals:
                refused = await lab.post(f"{path}/score", wrong)
                assert refused.status_code == 422, wrong
            assert (
                await lab.post("/experiments/e-nowhere/score", {"evaluators": [new]})
            ).status_code == 404
            other = lab.as_tenant("other")
            assert (await other.post(f"{path}/score", {"evaluators": [new]})).status_code == 404

    asyncio.run(scenario())


def test_a_key_is_refused_and_neither_stored_nor_repeated(open_lab: OpenLab) -> None:
    async def story() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows([{"said": "a", "meant": "a"}])
            server = {"url": "https://models.example/v1", "model": "m"}
            target = {"kind": "openai", "prompt": "{{said}}", **server}
            judge = {"kind": "llm_judge", "rubric": "Be kind.", **server}
            key = {"api_key": "sk-secret"}
            for order, field in (
                (order_of(version, target=target | key), "target.api_key"),
                (order_of(version, evaluators=[judge | key]), "evaluator.api_key"),
            ):
                refused = await lab.post("/experiments", order)
                assert refused.status_code == 422, refused.text
                assert f"`{field}_env`" in refused.text
                assert "sk-secret" not in refused.text
            assert "e-" not in (await lab.get("/experiments")).text

    asyncio.run(story())


def test_a_secret_in_a_header_is_refused_and_stored_nowhere(open_lab: OpenLab) -> None:
    async def story() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows([{"said": "a", "meant": "a"}])
            server = {"url": "https://models.example/v1", "headers": {"X-Api-Key": "hunter-2"}}
            target = {"kind": "http", "output": "$.text", **server}
            judge = {"kind": "llm_judge", "rubric": "Be kind.", "model": "m", **server}
            model = {"kind": "openai", "model": "m", "prompt": "{{said}}", **server}
            orders: list[dict[str, Any]] = [
                {"target": target},
                {"target": model},
                {"evaluators": [judge]},
            ]
            for order in orders:
                refused = await lab.post("/experiments", order_of(version, **order))
                assert refused.status_code == 422, refused.text
                assert "env:NAME" in refused.text
                assert "hunter-2" not in refused.text
            tried = {"evaluator": judge, "turn": {"said": "a"}, "output": "a"}
            refused = await lab.post("/evaluators/try", tried)
            assert refused.status_code == 422, refused.text
            assert "hunter-2" not in refused.text
            assert (await lab.get("/experiments")).json()["items"] == []

    asyncio.run(story())


def test_headers_and_addresses_are_not_shown(open_lab: OpenLab) -> None:
    async def story() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows([{"said": "a", "meant": "a"}])
            headers = {"X-Team": "secret of mine", "X-Other": "secret too"}
            target = {
                "kind": "http",
                "url": "https://models.example/v1?team=blue&token={{said}}",
                "headers": headers,
                "body": {"said": "{{said}}"},
                "output": "$.text",
            }
            judge = {"kind": "llm_judge", "rubric": "Be kind.", "model": "m", "headers": headers}
            order = order_of(
                version,
                target=target,
                evaluators=[judge | {"url": "https://models.example/v1"}],
            )
            told = target | {"url": "https://models.example/v1?token=secret"}
            refused = await lab.post("/experiments", order | {"target": told})
            assert refused.status_code == 422, refused.text
            assert "token=env:NAME" in refused.text
            assert "secret" not in refused.text
            made = await lab.post("/experiments", order)
            assert made.status_code == 201, made.text
            experiment_id = made.json()["experiment_id"]
            cloned = await lab.post(f"/experiments/{experiment_id}/clone", {"name": "copy"})
            assert cloned.status_code == 201, cloned.text
            for path in (f"/experiments/{experiment_id}", "/experiments"):
                shown = await lab.get(path)
                assert "secret" not in shown.text
                assert shown.text.count('"X-Team":"***"') >= 2

    asyncio.run(story())


def test_an_experiment_wants_the_cache_or_not_and_the_cache_can_be_cleared(
    open_lab: OpenLab,
) -> None:
    async def story() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(
                [{"said": "a", "meant": "a"}, {"said": "b", "meant": "b"}]
            )
            target = {"kind": "python", "function": "tests.integration.lab_api.targets:shout"}
            for name, cached in (("one", False), ("two", True)):
                order = {"name": name, "target": target, "evaluators": [], "cache": True}
                experiment_id = await lab.submit(version, **order)
                assert (await lab.until_ended(experiment_id))["cache"] is True
                found = await lab.post(f"/experiments/{experiment_id}/results")
                assert [row["cached"] for row in found.json()["items"]] == [cached, cached]
            assert (await lab.as_tenant("other").ask("DELETE", "/lab/cache")).json() == {
                "answers": 0
            }
            cleared = await lab.ask("DELETE", "/lab/cache")
            assert (cleared.status_code, cleared.json()) == (200, {"answers": 2})
            experiment_id = await lab.submit(version, name="three", target=target, cache=True)
            await lab.until_ended(experiment_id)
            found = await lab.post(f"/experiments/{experiment_id}/results")
            assert [row["cached"] for row in found.json()["items"]] == [False, False]

    asyncio.run(story())


def test_a_used_up_budget_answers_402_until_it_is_raised(open_lab: OpenLab) -> None:
    async def story() -> None:
        async with open_lab() as lab:
            rows = [{"said": str(n), "meant": str(n)} for n in range(10)]
            version = await lab.import_rows(rows)
            target = {"kind": "python", "function": "tests.integration.lab_api.targets:paid"}
            order = {"target": target, "budget": {"tokens": 30}, "concurrency": 1}
            experiment = await lab.submit(version, **order)
            ended = await lab.until_ended(experiment)
            assert ended["status"] == "terminated"
            assert "budget" in ended["reason"]
            assert ended["stats"]["tokens"] == 30
            assert (ended["stats"]["success"], ended["stats"]["terminated"]) == (3, 7)
            run = f"/experiments/{experiment}/runs"
            refused = await lab.post(run, {"mode": "fail_retry"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (
                402,
                "BUDGET_EXCEEDED",
            )
            changed = await lab.ask(
                "PATCH", f"/experiments/{experiment}", json={"budget": {"tokens": 1000}}
            )
            assert changed.status_code == 200, changed.text
            assert (await lab.post(run, {"mode": "fail_retry"})).status_code == 201
            ended = await lab.until_ended(experiment)
            assert (ended["status"], ended["stats"]["tokens"]) == ("success", 100)

    asyncio.run(story())


def test_items_are_added_to_an_append_experiment_until_it_is_finished(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            order = order_of("none")
            del order["dataset_version_id"]
            experiment_id = (await lab.post("/experiments", order)).json()["experiment_id"]
            path = f"/experiments/{experiment_id}"
            items = {"items": [{"turns": [row]} for row in ROWS]}
            early = await lab.post(f"{path}/invoke", items)
            assert (early.status_code, early.json()["error"]["code"]) == (
                409,
                "EXPERIMENT_NOT_RUNNING",
            )
            assert (await lab.post(f"{path}/runs", {"mode": "append"})).status_code == 201
            taken = await lab.post(f"{path}/invoke", items)
            assert (taken.status_code, len(taken.json()["item_ids"])) == (201, 4)
            await lab.until(experiment_id, lambda found: found["stats"]["success"] == 4)
            rows = (await lab.post(f"{path}/results", {})).json()["items"]
            assert sorted(row["item_id"] for row in rows) == sorted(taken.json()["item_ids"])
            for body, code in (
                ({"items": []}, "INVALID_MESSAGE"),
                ({"items": [{"turns": [{"sung": 1}]}]}, "SCHEMA_MISMATCH"),
                ({"items": [{"turns": "all"}]}, "INVALID_MESSAGE"),
                ({"items": [{"turns": [{"said": 1}], "id": 7}]}, "INVALID_MESSAGE"),
            ):
                refused = await lab.post(f"{path}/invoke", body)
                assert (refused.status_code, refused.json()["error"]["code"]) == (422, code)
            other = lab.as_tenant("other")
            assert (await other.post(f"{path}/invoke", items)).status_code == 404
            assert (await other.post(f"{path}/finish")).status_code == 404
            assert (await lab.post(f"{path}/finish")).status_code == 202
            ended = await lab.until_ended(experiment_id)
            assert (ended["status"], ended["next_run_at"]) == ("success", None)
            assert (await lab.post(f"{path}/finish")).status_code == 409

    asyncio.run(scenario())


def test_an_experiment_with_cron_shows_its_next_time(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version_id = await lab.import_rows(ROWS)
            order = order_of(version_id, cron="0 3 * * *", cron_timezone="Asia/Kolkata")
            refused = await lab.post("/experiments/submit", {**order, "mode": "submit"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (
                422,
                "INVALID_MESSAGE",
            )
            experiment_id = await lab.submit(
                version_id, cron="0 3 * * *", cron_timezone="Asia/Kolkata"
            )
            ended = await lab.until_ended(experiment_id)
            assert ended["stats"]["success"] == 4
            assert ended["next_run_at"].endswith("T21:30:00.000Z"), ended["next_run_at"]
            path = f"/experiments/{experiment_id}"
            other_mode = await lab.post(f"{path}/runs", {"mode": "retry_all"})
            assert other_mode.status_code == 422
            assert (await lab.post(f"{path}/finish")).status_code == 202
            assert (await lab.get(path)).json()["next_run_at"] is None

    asyncio.run(scenario())
