"""What a database held at each revision of the schema: rows that a person can read.

``python -m tests.integration.store.earlier_data`` writes the rows of the newest revision, and
``... 0007 0008`` those of older ones. A real server fills a database; what it leaves empty in so
short a time is given by hand below. An older revision gets the same rows without what came later.
Write the rows of a revision while it is the newest: then they are what the program really wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)

from dragoman.auth import ApiKey
from dragoman.store import upgrades
from dragoman.store.databases import database_at

FOLDER = Path(__file__).with_name("earlier")
ROOT = Path(__file__).parents[3]

Rows = dict[str, list[dict[str, Any]]]
"""The rows of every table, by its name."""

OPERATOR_KEY = ApiKey("dgm_" + "0" * 43)
"""A key that the database knows, of a form that no generator makes."""

EXPERIMENT = "greetings, louder"
TARGET = {"kind": "python", "function": "tests.integration.store.earlier_data:louder"}
ALLOWED = "tests.integration.store.*"

_ANSWERS = {"good morning": "GOOD MORNING", "¿qué tal?": "¿QUÉ TAL?", "tschüß": "TSCHÜẞ"}
_MOMENT_MS = 1_760_000_000_000

_BY_HAND: Rows = {
    "api_key": [
        {
            "id": "key-operator",
            "digest": OPERATOR_KEY.digest(),
            "role": "operator",
            "tenant": "default",
            "node_id": None,
            "created_at_ms": _MOMENT_MS,
            "revoked_at_ms": None,
            "expires_at_ms": None,
            "replaces": None,
        },
        {
            "id": "key-revoked",
            "digest": "f" * 64,
            "role": "node",
            "tenant": "default",
            "node_id": "nmt-1",
            "created_at_ms": _MOMENT_MS,
            "revoked_at_ms": _MOMENT_MS + 1,
            "expires_at_ms": _MOMENT_MS + 2,
            "replaces": "key-operator",
        },
    ],
    "calibration": [
        {
            "tenant": "default",
            "fingerprint": "a" * 64,
            "annotation": "fluent",
            "experiment_id": "experiment-of-a-judge",
            "model": "judge-1",
            "prompt": "b" * 64,
            "compared": 12,
            "same_label": 0.75,
            "kappa": 0.5,
            "pearson": None,
            "spearman": None,
            "alpha": 0.25,
            "measured_at_ms": _MOMENT_MS,
        }
    ],
    "dataset_audio": [
        {"version_id": "version-with-audio", "sha256": "c" * 64, "media_type": "audio/wav"}
    ],
    "lease": [{"name": "run/of-long-ago", "owner": "gone", "token": 7, "expires_at": _MOMENT_MS}],
    "mirror_change": [{"experiment_id": "deleted", "item_id": "", "change_no": 2}],
    "mirror_state": [{"name": "duckdb", "mirror_id": "of-another-machine", "flush_no": 3}],
    "pending_removal": [{"kind": "experiment", "id": "half-removed"}],
    "quota": [{"tenant": "small", "running_experiments": 1, "tokens": 10_000, "cost": 2.5}],
    "response_cache": [
        {
            "tenant": "default",
            "key": "d" * 64,
            "output_json": '{"output":"Buenos días"}',
            "created_at_ms": _MOMENT_MS,
        }
    ],
    "sign_in": [
        {
            "digest": "e" * 64,
            "key_id": "key-operator",
            "created_at_ms": _MOMENT_MS,
            "expires_at_ms": _MOMENT_MS + 1,
        }
    ],
    "target_pace": [
        {
            "target": "f" * 64,
            "tenant": "default",
            "title": "a model that is often asked",
            "most": 20,
            "learned_json": None,
        }
    ],
    "target_share": [
        {
            "target": "f" * 64,
            "claimant": "gone/run",
            "wanted": 4,
            "granted": 2,
            "seen_at_ms": _MOMENT_MS,
        }
    ],
    "tenant_usage": [
        {
            "day": "2025-10-09",
            "tenant": "default",
            "counted_by": "gone",
            "jobs": 3,
            "audio_ms": 4_500,
            "characters": 120,
            "tokens_in": 30,
            "tokens_out": 40,
        }
    ],
    "worker": [
        {
            "owner": "gone",
            "host": "lab-1",
            "pid": 4711,
            "version": "0.1",
            "schedules": True,
            "mirror": "",
            "is_draining": False,
            "capacity": 8,
            "items_done": 40,
            "items_per_second": 1.5,
            "doing_json": "[]",
            "started_at_ms": _MOMENT_MS,
            "seen_at_ms": _MOMENT_MS,
        }
    ],
}
"""For each of these tables all its rows, whatever the server wrote there."""


def louder(said: str) -> str:
    """The target of the experiment: it fails for what it does not know."""
    return _ANSWERS[said]


def fixture_of(revision: str) -> Path:
    """The file with the rows of a revision."""
    return FOLDER / f"{revision}.json"


def load(revision: str) -> Rows:
    """What a database held at the revision."""
    found: Rows = json.loads(fixture_of(revision).read_text())
    return found


def upgrade_to(connection: sa.Connection, revision: str) -> None:
    """Set an empty database up as the program did at that revision."""
    config = upgrades.alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def columns_of(connection: sa.Connection) -> dict[str, list[str]]:
    """The columns of every table but Alembic's own."""
    inspector = sa.inspect(connection)
    return {
        table: [column["name"] for column in inspector.get_columns(table)]
        for table in sorted(inspector.get_table_names())
        if table != "alembic_version"
    }


def read_rows(connection: sa.Connection) -> Rows:
    """Every row of every table, as it can be written to a file; in the order of their texts."""
    metadata = sa.MetaData()
    metadata.reflect(connection)
    found: Rows = {}
    for table, columns in columns_of(connection).items():
        rows = connection.execute(sa.select(metadata.tables[table]))
        plain = [dict(zip(columns, row, strict=True)) for row in rows]
        found[table] = sorted(plain, key=lambda row: json.dumps(row, sort_keys=True))
    return found


def insert_rows(connection: sa.Connection, rows: Rows) -> None:
    """Put the rows into a database of their revision."""
    metadata = sa.MetaData()
    metadata.reflect(connection)
    # What a mirror lacks comes last: triggers add to it as long as one follows the database.
    for table, some in sorted(rows.items(), key=lambda entry: entry[0].startswith("mirror_")):
        connection.execute(sa.insert(metadata.tables[table]), some)


# --- writing --------------------------------------------------------------------------------------


def _rows_of_a_server(folder: Path) -> Rows:
    """Let a server carry out an experiment that people judge, and keep terms."""
    env = environment(DRAGOMAN_LAB__PYTHON_ALLOW=f'["{ALLOWED}"]', PYTHONPATH=str(ROOT))
    database = database_at(f"sqlite:///{folder}/data/dragoman.db")

    def rows() -> Rows:
        found = database.inspect(read_rows)
        assert found is not None
        return found

    with ServerProcess(folder / "data", env=env, lab=True) as server:
        with httpx.Client(base_url=f"{server.url}/api/v1", timeout=PATIENCE_SECONDS) as http:
            _use(http)
        eventually(lambda: bool(rows()["experiment_aggregate"]), "the scores of the run are kept")
        server.signal()
        server.wait()
    return rows()


def _use(http: httpx.Client) -> None:
    items: list[Mapping[str, Any]] = [
        {"said": said, "meant": meant} for said, meant in _ANSWERS.items()
    ]
    items += [
        {"said": "never heard", "meant": "NEVER HEARD"},
        {"turns": [{"said": said, "meant": "GOOD MORNING"} for said in list(_ANSWERS)[:2]]},
    ]
    file = "".join(json.dumps(item) + "\n" for item in items).encode()
    upload = {"data": {"name": "greetings"}, "files": {"file": ("greetings.jsonl", file)}}
    version_id = _answer(http.post("/datasets", **upload))["version_id"]  # type: ignore[arg-type]
    order = {
        "name": EXPERIMENT,
        "dataset_version_id": version_id,
        "target": TARGET,
        "evaluators": [
            {"kind": "exact", "reference": "meant"},
            {"kind": "chrf", "reference": "meant"},
        ],
    }
    submitted = _answer(http.post("/experiments/submit", json=order))
    experiment = f"/experiments/{submitted['experiment_id']}"
    eventually(lambda: _answer(http.get(experiment))["status"] == "success", "the experiment ends")
    rows = _answer(http.post(f"{experiment}/results", json={}))["items"]
    judged = {"item_id": rows[0]["item_id"], "name": "fluent", "score": 0.5, "annotator": "ana"}
    _answer(http.post(f"{experiment}/annotations", json=judged))
    terms = [{"term": "tschüß", "src_lang": "de", "tgt_lang": "en", "translation": "bye"}]
    _answer(http.put("/glossary", json={"items": terms}))


def _answer(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


def write(revisions: list[str]) -> None:
    """Write the rows of these revisions."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        newest = {**_rows_of_a_server(folder), **_BY_HAND}
        for row in newest["item_run_log"]:
            row["lease_owner"] = "gone"  # it names the machine
        for revision in revisions:
            empty = database_at(f"sqlite:///{folder}/{revision}.db")
            empty.alter(partial(upgrade_to, revision=revision))
            tables = empty.inspect(columns_of)
            assert tables is not None
            rows = {
                table: [{column: row[column] for column in columns} for row in newest[table]]
                for table, columns in tables.items()
            }
            without = [table for table, some in rows.items() if not some]
            if without:
                raise SystemExit(f"give rows by hand in {__file__} for: {', '.join(without)}")
            fixture_of(revision).write_text(_readable(rows))


def _readable(rows: Rows) -> str:
    """JSON with a row a line."""
    tables = []
    for table, some in rows.items():
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in some)
        tables.append(f'  "{table}": [\n{lines}\n  ]')
    return "{\n" + ",\n".join(tables) + "\n}\n"


def known_revisions() -> list[str]:
    """The revisions that this program knows, oldest first; it works on the last."""
    scripts = ScriptDirectory.from_config(upgrades.alembic_config())
    return [script.revision for script in reversed(list(scripts.walk_revisions()))]


if __name__ == "__main__":
    write(sys.argv[1:] or known_revisions()[-1:])
