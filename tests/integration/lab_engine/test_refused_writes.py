"""A database that refuses what one item has fails that item, with the reason, and no other."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa
from tests.integration.lab_engine.laboratory import add_items, laboratory

from dragoman.lab.evaluators import Score
from dragoman.lab.failures import TargetError
from dragoman.lab.model import EvaluatorSpec, ExperimentSpec, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.store import StoreConnection

TRIGGERS = {
    "sqlite": (
        "CREATE TRIGGER refuse_{table} BEFORE INSERT ON {table} "
        "WHEN NEW.{column} LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'no poison here'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION refuse_{table}() RETURNS trigger AS $$ BEGIN "
        "IF NEW.{column} LIKE '%poison%' THEN RAISE EXCEPTION 'no poison here'; END IF; "
        "RETURN NEW; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER refuse_{table} BEFORE INSERT ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION refuse_{table}()",
    ),
    "mysql": (
        "CREATE TRIGGER refuse_{table} BEFORE INSERT ON {table} FOR EACH ROW "
        "IF NEW.{column} LIKE '%poison%' THEN "
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no poison here'; END IF",
    ),
}


@pytest.mark.parametrize(
    ("table", "column", "code"),
    [
        ("target_record", "output_json", "TARGET_ERROR"),
        ("evaluator_record", "label", "EVALUATOR_ERROR"),
    ],
)
@pytest.mark.parametrize("fails_first", [False, True], ids=["first try", "second try"])
def test_what_the_database_refuses_fails_its_item_with_the_reason(
    database_url: str, table: str, column: str, code: str, fails_first: bool
) -> None:
    called: list[str] = []

    async def echo(text: str) -> str:
        called.append(text)
        if fails_first and text == "poison" and called.count(text) == 1:
            raise TargetError("once")
        return text

    def judge(output: str) -> Score:
        return Score(1.0, output)

    def refuse(connection: StoreConnection) -> None:
        for statement in TRIGGERS[connection.dialect]:
            connection.execute(sa.text(statement.format(table=table, column=column)))

    async def story() -> None:
        context = Context(functions={"echo": echo, "judge": judge})
        async with laboratory(database_url, context=context) as at:
            await at.store.write(refuse)
            texts = ["a", "poison", "b", "c", "d"]
            version, ids = await add_items(at.store, [[{"text": text}] for text in texts])
            spec = ExperimentSpec(
                "refused",
                version,
                TargetSpec("python", {"function": "echo"}),
                (EvaluatorSpec("python", "good", settings={"function": "judge"}),),
                concurrency=5,
            )
            await at.run(spec)
            rows = await at.rows(
                "SELECT item_id, status, error_code, error_message FROM turn_result "
                "ORDER BY item_id"
            )
            assert [row[1] for row in rows] == ["success", "fail", "success", "success", "success"]
            failed = rows[1]
            assert failed[0] == ids[1]
            assert failed[2] == code
            assert "The database refused" in failed[3]
            assert "no poison here" in failed[3]
            assert called.count("poison") == 1 + fails_first, "nothing was lost and done again"
            assert at.metrics.lab_zombies._value.get() == 0

    asyncio.run(story())
